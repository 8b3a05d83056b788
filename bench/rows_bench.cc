// Elementwise and row kernels on one core: nanoseconds an element, and milliseconds of compilation.
//
//   rows_bench [--benchmark_filter=REGEX]
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "ir/base/errors.h"
#include "ir/tile/builder.h"
#include "jit/compile.h"
#include "jit/load/loader.h"

namespace {

using kiln::DType;
using kiln::Isa;
using kiln::tile::Combiner;
using kiln::tile::Expr;
using kiln::tile::Exprs;
using kiln::tile::Indices;
using kiln::tile::kDynamic;
using kiln::tile::Kernel;
using kiln::tile::KernelBuilder;
using kiln::tile::Type;
using kiln::tile::View;

Type matrix() { return Type::view(DType::F32, {kDynamic, kDynamic}); }

Kernel copy(std::int64_t block) {
  KernelBuilder k("copy");
  const View x = k.input("x", matrix()), y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0), ceildiv(x.dim(1), block)}; });
  const Expr i = k.program_id(0), j = k.program_id(1) * block;
  y.store({i, j}, x.load({i, j}, {1, block}));
  return k.finish();
}

Kernel exponential(std::int64_t block) {
  KernelBuilder k("exp");
  const View x = k.input("x", matrix()), y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0), ceildiv(x.dim(1), block)}; });
  const Expr i = k.program_id(0), j = k.program_id(1) * block;
  y.store({i, j}, exp(x.load({i, j}, {1, block})));
  return k.finish();
}

Kernel bias_gelu(std::int64_t block) {
  KernelBuilder k("bias_gelu");
  const View x = k.input("x", matrix()), b = k.input("b", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0), ceildiv(x.dim(1), block)}; });
  const Expr i = k.program_id(0), j = k.program_id(1) * block;
  y.store({i, j}, gelu(x.load({i, j}, {1, block}) + b.load({j}, {block})));
  return k.finish();
}

Kernel softmax(std::int64_t block) {
  KernelBuilder k("softmax");
  const View x = k.input("x", matrix()), y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0)}; });
  const Expr r = k.program_id(0), n = x.dim(1);
  const View row = k.local(DType::F32, {n}, 65536);
  const Expr top =
      k.loop(0, n, block, {k.constant(DType::F32, -INFINITY)}, [&](Expr j, const Exprs& c) -> Exprs {
        return {max(c[0], k.reduce(Combiner::Max, x.load({r, j}, {1, block}, -INFINITY), 1))};
      })[0];
  const Expr sum = k.loop(0, n, block, {k.constant(DType::F32, 0)}, [&](Expr j, const Exprs& c) -> Exprs {
    const Expr e = exp(x.load({r, j}, {1, block}, -INFINITY) - top);
    row.store({j}, e);
    return {c[0] + k.reduce(Combiner::Sum, e, 1)};
  })[0];
  k.loop(0, n, block, [&](Expr j) { y.store({r, j}, row.load({j}, {block}) * (1.0 / sum)); });
  return k.finish();
}

Kernel layer_norm(std::int64_t block) {
  KernelBuilder k("layer_norm");
  const View x = k.input("x", matrix()), g = k.input("g", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {x.dim(0)}; });
  const Expr r = k.program_id(0), n = x.dim(1), count = k.cast(x.dim(1), DType::F32);
  const Expr total = k.loop(0, n, block, {k.constant(DType::F32, 0)}, [&](Expr j, const Exprs& c) -> Exprs {
    return {c[0] + k.reduce(Combiner::Sum, x.load({r, j}, {1, block}), 1)};
  })[0];
  const Expr mean = total / count;
  const Expr squares = k.loop(0, n, block, {k.constant(DType::F32, 0)}, [&](Expr j, const Exprs& c) -> Exprs {
    const Expr d = k.mask(x.load({r, j}, {1, block}) - mean, 1, n - j, 0);
    return {c[0] + k.reduce(Combiner::Sum, d * d, 1)};
  })[0];
  const Expr scale = 1.0 / sqrt(squares / count + 1e-5);
  k.loop(0, n, block, [&](Expr j) {
    y.store({r, j}, (x.load({r, j}, {1, block}) - mean) * scale * g.load({j}, {block}));
  });
  return k.finish();
}

Kernel transpose(std::int64_t block) {
  KernelBuilder k("transpose");
  const View x = k.input("x", matrix()), y = k.output("y", matrix());
  k.grid([&]() -> Indices { return {ceildiv(x.dim(0), block), ceildiv(x.dim(1), block)}; });
  const Expr i = k.program_id(0) * block, j = k.program_id(1) * block;
  y.transpose({1, 0}).store({i, j}, x.load({i, j}, {block, block}));
  return k.finish();
}

// Runs `kernel(x[rows, columns] , (vector,) y)` repeatedly.
void run(benchmark::State& state, const Kernel& kernel, Isa isa, std::int64_t rows, std::int64_t columns,
         bool transposed) {
  const kiln::Target target = kiln::jit::target_for_isa(isa);
  const kiln::jit::Artifact artifact = kiln::jit::compile(kernel, {}, target, "kernel").value();
  const kiln::jit::LoadedKernel loaded = kiln::jit::load(artifact).value();
  std::vector<float> x(static_cast<std::size_t>(rows * columns)), y(x.size()),
      v(static_cast<std::size_t>(columns));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : x) value = normal(random);
  for (float& value : v) value = normal(random);
  std::vector<std::uint64_t> words;
  const auto add = [&](const float* data, const std::vector<std::int64_t>& numbers) {
    words.push_back(reinterpret_cast<std::uint64_t>(data));
    for (const std::int64_t number : numbers) words.push_back(static_cast<std::uint64_t>(number));
  };
  add(x.data(), {rows, columns, columns, 1});
  if (kernel.parameters.size() == 3) add(v.data(), {columns, 1});
  if (transposed) {
    add(y.data(), {columns, rows, rows, 1});
  } else {
    add(y.data(), {rows, columns, columns, 1});
  }
  std::vector<std::int64_t> low(kiln::jit::kMaxGridRank, 0), high(kiln::jit::kMaxGridRank, 1);
  loaded.grid(words.data(), high.data());
  const auto bytes = static_cast<std::size_t>((loaded.scratch(words.data()) + 127) / 64 * 64);
  const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, bytes), &std::free);
  kiln::jit::KernelStatus status;
  const kiln::jit::KernelCall call{words.data(), low.data(), high.data(), scratch.get(), &status};
  for (auto _ : state) loaded.run(&call);
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(rows * columns) / 1e9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["compile_ms"] = artifact.facts.compile_ms;
  state.counters["spills"] = artifact.facts.spills;
  state.counters["code_bytes"] = static_cast<double>(artifact.facts.code_bytes);
}

struct Case {
  const char* name;
  Kernel (*build)(std::int64_t block);
  std::int64_t block, rows, columns;
  bool transposed = false;
};

const Case kCases[] = {
    {"copy", copy, 512, 1, 4096},
    {"exp", exponential, 512, 1, 4096},
    {"bias_gelu", bias_gelu, 512, 4, 1024},
    {"softmax", softmax, 512, 32, 100},
    {"softmax", softmax, 512, 32, 128},
    {"softmax", softmax, 512, 32, 1024},
    {"layer_norm", layer_norm, 512, 32, 768},
    {"transpose", transpose, 32, 64, 64, true},
    {"transpose", transpose, 32, 1024, 1024, true},
};

}  // namespace

int main(int argc, char** argv) {
  for (const Isa isa : {Isa::X86_64_V3, Isa::X86_64_V4}) {
    if (isa > kiln::jit::host_target().isa) continue;
    for (const Case& c : kCases) {
      const std::string label = fmt::format("{}/{}x{}/{}", c.name, c.rows, c.columns, kiln::name(isa));
      benchmark::RegisterBenchmark(label.c_str(), [c, isa](benchmark::State& state) {
        run(state, c.build(c.block), isa, c.rows, c.columns, c.transposed);
      });
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
