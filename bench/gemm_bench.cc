// f32 matrix products on one core: generated kernels beside OpenBLAS and oneDNN, interleaved in one run, as
// fractions of the measured FMA peak.
//
//   gemm_bench [x86-64-v3|x86-64-v4] [MxNxK ...]
//
// "session" is an ONNX MatMul with constant B through Session::run. "packed" contenders have B prepared
// before timing; the others read it row-major. Medians of interleaved rounds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <immintrin.h>

#ifdef KILN_HAS_OPENBLAS
extern "C" void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
extern "C" void openblas_set_num_threads(int threads);
#endif
#ifdef KILN_HAS_DNNL
#include <oneapi/dnnl/dnnl.hpp>
extern "C" void omp_set_num_threads(int threads) __attribute__((weak));  // of the OpenMP library that it uses
#endif

#include <kiln/kiln.h>

#include "ir/base/errors.h"
#include "ir/tile/builder.h"
#include "jit/compile.h"
#include "jit/kernel_abi.h"
#include "jit/load/loader.h"

namespace {

using kiln::DType;
using kiln::Isa;
using kiln::tile::Expr;
using kiln::tile::Exprs;
using kiln::tile::KernelBuilder;
using kiln::tile::Type;
using kiln::tile::View;

struct Shape {
  std::int64_t m, n, k;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// CPU time of this thread, so that other work on the machine does not count.
double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Enough independent chains to hide the latency of fma on any core.
__attribute__((target("avx512f"), noinline)) float fma_chains_512(std::int64_t iterations) {
  __m512 sums[16];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  const __m512 factor = _mm512_set1_ps(0.5f);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  for (int i = 1; i < 16; ++i) sums[0] = _mm512_add_ps(sums[0], sums[i]);
  return _mm512_cvtss_f32(sums[0]);
}
__attribute__((target("avx2,fma"), noinline)) float fma_chains_256(std::int64_t iterations) {
  __m256 sums[12];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0f);
  const __m256 factor = _mm256_set1_ps(0.5f);
  for (std::int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  for (int i = 1; i < 12; ++i) sums[0] = _mm256_add_ps(sums[0], sums[i]);
  return _mm256_cvtss_f32(sums[0]);
}

volatile float sink;

// Flops per second of dependent-free fma in registers.
double fma_peak(Isa isa) {
  constexpr std::int64_t kIterations = 4'000'000;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const double start = seconds();
    double flops = kIterations;
    switch (isa) {
      case Isa::X86_64_V4:
        sink = fma_chains_512(kIterations);
        flops *= 16 * 16 * 2;
        break;
      case Isa::X86_64_V3:
        sink = fma_chains_256(kIterations);
        flops *= 12 * 8 * 2;
        break;
    }
    best = std::max(best, flops / (seconds() - start));
  }
  return best;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using Buffer = std::unique_ptr<T[], Free>;

Buffer<float> floats(std::int64_t count, unsigned seed = 0) {
  const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(float) + 4095) / 4096 * 4096;
  Buffer<float> buffer(static_cast<float*>(std::aligned_alloc(4096, std::max<std::size_t>(bytes, 4096))));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < count; ++i)
    buffer[static_cast<std::size_t>(i)] = seed == 0 ? 0.0f : normal(random);
  return buffer;
}

// C = A * B by tiles: B row-major, or in panels of `panel` columns, zeros beyond n.
kiln::tile::Kernel matmul(const Shape& shape, std::int64_t rows, std::int64_t panel, bool packed) {
  KernelBuilder k("matmul");
  const View a = k.input("a", Type::view(DType::F32, {kiln::tile::kDynamic, shape.k}));
  const std::int64_t panels = (shape.n + panel - 1) / panel;
  const View b = packed ? k.input("b", Type::view(DType::F32, {panels, shape.k, panel})).transpose({1, 0, 2})
                        : k.input("b", Type::view(DType::F32, {shape.k, shape.n}));
  const View c = k.output("c", Type::view(DType::F32, {kiln::tile::kDynamic, shape.n}));
  k.grid([&] { return kiln::tile::Indices{(a.dim(0) + (rows - 1.0)) / static_cast<double>(rows), panels}; });
  const Expr i = k.program_id(0) * static_cast<double>(rows);
  const Expr j = k.program_id(1);
  const Expr column = j * static_cast<double>(panel);
  const std::int64_t block = shape.k;
  const Expr sum = k.contract({shape.k}, {block}, {k.zeros(DType::F32, {rows, panel})},
                              [&](const Exprs& index, const Exprs& carried) -> Exprs {
                                const Expr left = a.load({i, index[0]}, {rows, block});
                                const Expr right = packed ? b.load({index[0], j, 0}, {block, 1, panel})
                                                          : b.load({index[0], column}, {block, panel});
                                return {k.dot(carried[0], left, right)};
                              })[0];
  c.store({i, column}, sum);
  return k.finish();
}

// A compiled matmul with its arguments.
class Generated {
 public:
  Generated(const Shape& shape, const kiln::Target& target, bool packed, const float* a, const float* b,
            float* c) {
    const int lanes = target.vector_bytes() / 4;
    const std::int64_t width = (target.vector_registers() >= 32 ? 4 : 2) * lanes;
    const std::int64_t rows = shape.m < 96 ? std::max<std::int64_t>(shape.m, 1) : 96;
    static int number = 0;
    const std::string symbol = fmt::format("kiln_bench_{}", number++);
    artifact_ = kiln::jit::compile(matmul(shape, rows, width, packed), {}, target, symbol).value();
    kernel_ = kiln::jit::load(artifact_).value();
    const std::int64_t panels = (shape.n + width - 1) / width;
    if (packed) {
      panels_ = floats(panels * shape.k * width);
      for (std::int64_t k = 0; k < shape.k; ++k) {
        for (std::int64_t n = 0; n < shape.n; ++n) {
          panels_[static_cast<std::size_t>((n / width * shape.k + k) * width + n % width)] =
              b[static_cast<std::size_t>(k * shape.n + n)];
        }
      }
    }
    const auto view = [&](const void* data, const std::vector<std::int64_t>& extents) {
      arguments_.push_back(reinterpret_cast<std::uint64_t>(data));
      for (const std::int64_t extent : extents) arguments_.push_back(static_cast<std::uint64_t>(extent));
      for (std::size_t axis = 0; axis < extents.size(); ++axis) {
        std::int64_t stride = 1;
        for (std::size_t inner = axis + 1; inner < extents.size(); ++inner) stride *= extents[inner];
        arguments_.push_back(static_cast<std::uint64_t>(stride));
      }
    };
    view(a, {shape.m, shape.k});
    if (packed) {
      view(panels_.get(), {panels, shape.k, width});
    } else {
      view(b, {shape.k, shape.n});
    }
    view(c, {shape.m, shape.n});
    kernel_.grid(arguments_.data(), high_);
    scratch_ = floats(kernel_.scratch(arguments_.data()) / 4 + 1);
  }

  void run() {
    kiln::jit::KernelStatus status;
    const kiln::jit::KernelCall call{arguments_.data(), low_, high_, scratch_.get(), &status};
    kernel_.run(&call);
  }
  const kiln::jit::ArtifactFacts& facts() const { return artifact_.facts; }

 private:
  kiln::jit::Artifact artifact_;
  kiln::jit::LoadedKernel kernel_;
  Buffer<float> panels_;
  Buffer<float> scratch_;
  std::vector<std::uint64_t> arguments_;
  std::int64_t low_[kiln::jit::kMaxGridRank] = {};
  std::int64_t high_[kiln::jit::kMaxGridRank] = {};
};

// A protobuf message in the making: enough of the format for a model of one node.
class Message {
 public:
  Message& number(unsigned field, std::uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Message& bytes(unsigned field, std::string_view value) {
    varint(field << 3 | 2);
    varint(value.size());
    text_.append(value);
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return bytes(field, value.text_); }
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }
  std::string text_;
};

// ONNX: y[m x n] = MatMul(x[m x k], b), m bound by each run and b constant.
std::string matmul_model(const Shape& shape, const float* b) {
  const auto extent = [](std::int64_t value) {
    return Message().number(1, static_cast<std::uint64_t>(value));
  };
  const auto value = [&](std::string_view name, std::int64_t columns) {
    const Message dims = Message().message(1, Message().bytes(2, "m")).message(1, extent(columns));
    return Message().bytes(1, name).message(2, Message().message(1, Message().number(1, 1).message(2, dims)));
  };
  const auto size = static_cast<std::size_t>(shape.k * shape.n) * sizeof(float);
  Message constant;
  constant.number(1, static_cast<std::uint64_t>(shape.k)).number(1, static_cast<std::uint64_t>(shape.n));
  constant.number(2, 1).bytes(8, "b").bytes(9, {reinterpret_cast<const char*>(b), size});
  Message graph;
  graph.message(1, Message().bytes(1, "x").bytes(1, "b").bytes(2, "y").bytes(4, "MatMul")).bytes(2, "matmul");
  graph.message(5, constant).message(11, value("x", shape.k)).message(12, value("y", shape.n));
  return Message().number(1, 8).message(7, graph).message(8, Message().bytes(1, "").number(2, 13)).text();
}

// The same product through the public API.
class Served {
 public:
  Served(const Shape& shape, Isa isa, float* a, const float* b, float* c)
      : session_(load(shape, isa, b)),
        inputs_{kiln::Tensor::view(DType::F32, {shape.m, shape.k}, a)},
        outputs_{kiln::Tensor::view(DType::F32, {shape.m, shape.n}, c)} {}
  void run() { session_.run(inputs_, outputs_); }
  kiln::SessionStats stats() const { return session_.stats(); }

 private:
  static kiln::Session load(const Shape& shape, Isa isa, const float* b) {
    kiln::Options options;
    options.target = kiln::name(isa);
    options.threads = 1;
    options.cache = "off";
    options.strict = true;
    const std::string model = matmul_model(shape, b);
    return kiln::Session::load_bytes(std::as_bytes(std::span(model)), "", options);
  }
  kiln::Session session_;
  std::vector<kiln::Tensor> inputs_, outputs_;
};

struct Contender {
  std::string name;
  std::function<void()> run;
  std::vector<double> times;

  double median() {
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }
};

void add_peers(std::vector<Contender>& contenders, const Shape& shape, float* a, float* b, float* c) {
#ifdef KILN_HAS_OPENBLAS
  contenders.push_back({"OpenBLAS",
                        [=] {
                          constexpr int kRowMajor = 101, kNoTranspose = 111;
                          const int m = static_cast<int>(shape.m), n = static_cast<int>(shape.n),
                                    k = static_cast<int>(shape.k);
                          cblas_sgemm(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1, a, k, b, n, 0, c, n);
                        },
                        {}});
#endif
#ifdef KILN_HAS_DNNL
  contenders.push_back(
      {"oneDNN sgemm",
       [=] { dnnl::sgemm('N', 'N', shape.m, shape.n, shape.k, 1, a, shape.k, b, shape.n, 0, c, shape.n); },
       {}});
  using Tag = dnnl::memory::format_tag;
  const auto f32 = dnnl::memory::data_type::f32;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::desc plain_a({shape.m, shape.k}, f32, Tag::ab),
      plain_b({shape.k, shape.n}, f32, Tag::ab), any_b({shape.k, shape.n}, f32, Tag::any),
      plain_c({shape.m, shape.n}, f32, Tag::ab);
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(plain_a, any_b, plain_c), engine);
  dnnl::memory packed(description.weights_desc(), engine);
  dnnl::memory source(plain_b, engine, b);
  dnnl::reorder(source, packed).execute(stream, source, packed);
  const dnnl::memory left(plain_a, engine, a), result(plain_c, engine, c);
  const dnnl::matmul primitive(description);
  contenders.push_back({"oneDNN packed",
                        [=]() mutable {
                          primitive.execute(
                              stream,
                              {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, result}});
                          stream.wait();
                        },
                        {}});
#endif
#if !defined(KILN_HAS_OPENBLAS) && !defined(KILN_HAS_DNNL)
  static_cast<void>(contenders), static_cast<void>(shape), static_cast<void>(a), static_cast<void>(b),
      static_cast<void>(c);
#endif
}

// Greatest |error| of sampled elements of C over the sum of |a||b|.
double sampled_error(const Shape& shape, const float* a, const float* b, const float* c) {
  double worst = 0;
  std::mt19937 random(7);
  for (int sample = 0; sample < 200; ++sample) {
    const std::int64_t row = static_cast<std::int64_t>(random()) % shape.m;
    const std::int64_t column = static_cast<std::int64_t>(random()) % shape.n;
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < shape.k; ++k) {
      const double product =
          static_cast<double>(a[row * shape.k + k]) * static_cast<double>(b[k * shape.n + column]);
      sum += product;
      magnitude += std::abs(product);
    }
    worst = std::max(worst, std::abs(static_cast<double>(c[row * shape.n + column]) - sum) / magnitude);
  }
  return worst;
}

void measure(const Shape& shape, const kiln::Target& target, double peak) {
  const Buffer<float> a = floats(shape.m * shape.k, 1), b = floats(shape.k * shape.n, 2),
                      c = floats(shape.m * shape.n);
  Generated packed(shape, target, true, a.get(), b.get(), c.get());
  Generated plain(shape, target, false, a.get(), b.get(), c.get());
  Served served(shape, target.isa, a.get(), b.get(), c.get());
  std::vector<Contender> contenders;
  contenders.push_back({"kiln session", [&] { served.run(); }, {}});
  contenders.push_back({"kiln packed", [&] { packed.run(); }, {}});
  contenders.push_back({"kiln", [&] { plain.run(); }, {}});
  add_peers(contenders, shape, a.get(), b.get(), c.get());

  const auto repeats = static_cast<int>(std::max(1.0, 3e-3 * peak / shape.flops()));
  for (int round = 0; round < 9; ++round) {
    for (Contender& contender : contenders) {
      contender.run();
      const double start = seconds();
      for (int i = 0; i < repeats; ++i) contender.run();
      contender.times.push_back((seconds() - start) / repeats);
    }
  }
  fmt::print("{:>16}", fmt::format("{}x{}x{}", shape.m, shape.n, shape.k));
  for (Contender& contender : contenders) {
    const double rate = shape.flops() / contender.median();
    fmt::print(" | {} {:.1f} GF/s ({:.0f} %)", contender.name, rate * 1e-9, 100 * rate / peak);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    contenders[i].run();
    const double error = sampled_error(shape, a.get(), b.get(), c.get());
    if (!(error < 1e-5))
      kiln::throw_bug("the generated product of {}x{}x{} is off by {}", shape.m, shape.n, shape.k, error);
  }
  fmt::print(" | compile {:.1f} ms, {} B, {} spills\n", packed.facts().compile_ms, packed.facts().code_bytes,
             packed.facts().spills);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    kiln::Target target = kiln::jit::host_target();
    std::vector<Shape> shapes;
    for (int i = 1; i < argc; ++i) {
      Shape shape{};
      if (std::string_view(argv[i]) == "x86-64-v3") {
        target = kiln::jit::target_for_isa(Isa::X86_64_V3);
      } else if (std::string_view(argv[i]) == "x86-64-v4") {
        target = kiln::jit::target_for_isa(Isa::X86_64_V4);
      } else if (std::sscanf(argv[i], "%ldx%ldx%ld", &shape.m, &shape.n, &shape.k) == 3 && shape.m > 0 &&
                 shape.n > 0 && shape.k > 0) {
        shapes.push_back(shape);
      } else {
        fmt::print(stderr, "got '{}', expected x86-64-v3, x86-64-v4 or MxNxK\n", argv[i]);
        return 2;
      }
    }
    if (shapes.empty()) {
      shapes = {{64, 64, 64},   {256, 256, 256},  {512, 512, 512}, {1024, 1024, 1024}, {1, 768, 768},
                {4, 768, 768},  {32, 768, 768},   {128, 768, 768}, {512, 768, 768},    {1, 3072, 768},
                {8, 3072, 768}, {128, 3072, 768}, {512, 768, 3072}};
    }
#ifdef KILN_HAS_OPENBLAS
    openblas_set_num_threads(1);
#endif
#ifdef KILN_HAS_DNNL
    if (omp_set_num_threads) omp_set_num_threads(1);
#endif
    const double peak = fma_peak(target.isa);
    fmt::print("{}, one thread, f32; fma peak {:.1f} GF/s; MxNxK\n", kiln::name(target.isa), peak * 1e-9);
    for (const Shape& shape : shapes) measure(shape, target, peak);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
