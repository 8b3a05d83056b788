#include "jit/load/loader.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <vector>

#include "ir/tile/builder.h"
#include "tests/support/kernel_runner.h"

namespace kiln::jit {
namespace {

using tile::Argument;
using tile::Expr;
using tile::Exprs;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Type;
using tile::View;
using tile::ViewArgument;

// y = x * factor
Kernel scale(double factor) {
  KernelBuilder k("scale");
  const View x = k.input("x", Type::view(DType::F32, {kDynamic}));
  const View y = k.output("y", Type::view(DType::F32, {kDynamic}));
  k.grid([&]() -> Indices { return {ceildiv(x.dim(0), 64)}; });
  const Expr i = k.program_id(0) * 64;
  y.store({i}, x.load({i}, {64}) * factor);
  return k.finish();
}

// Exchanges two tiles that are too large to be copied by inline code.
Kernel swap() {
  KernelBuilder k("swap");
  const View x = k.input("x", Type::view(DType::F32, {64, 64}));
  const View y = k.output("y", Type::view(DType::F32, {64, 64}));
  k.grid([&]() -> Indices { return {1}; });
  const Exprs swapped =
      k.loop(0, 3, 1, {x.load({0, 0}, {64, 64}), k.zeros(DType::F32, {64, 64})},
             [&](Expr, const Exprs& carried) -> Exprs { return {carried[1] + 1.0, carried[0]}; });
  y.store({0, 0}, swapped[0] - swapped[1]);
  return k.finish();
}

Artifact compiled(const Kernel& kernel, const std::string& symbol = "kernel") {
  return compile(kernel, {}, target_for_isa(Isa::X86_64_V3), symbol).value();
}

std::vector<float> call(const LoadedKernel& kernel, std::vector<float> x) {
  std::vector<float> y(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  const std::vector<Argument> arguments{ViewArgument{std::as_writable_bytes(std::span(x)), 0, {n}, {1}},
                                        ViewArgument{std::as_writable_bytes(std::span(y)), 0, {n}, {1}}};
  EXPECT_EQ(run(kernel, pack(arguments)).code, 0);
  return y;
}

TEST(Loader, OneArtifactMayBeLoadedTwiceAndUnloadedOnce) {
  const Artifact artifact = compiled(scale(2));
  LoadedKernel first = load(artifact).value();
  const LoadedKernel second = load(artifact).value();
  EXPECT_NE(first.run, second.run);
  first = {};
  EXPECT_EQ(call(second, {1, 2, 3}), (std::vector<float>{2, 4, 6}));
}

TEST(Loader, CodeLivesAsLongAsAnyCopy) {
  LoadedKernel copy;
  {
    const LoadedKernel kernel = load(compiled(scale(3))).value();
    copy = kernel;
  }
  EXPECT_EQ(copy.code.use_count(), 1);
  EXPECT_EQ(call(copy, {1}), std::vector<float>{3});
}

TEST(Loader, MalformedObjectsAreErrors) {
  const Artifact good = compiled(scale(2));
  Artifact bad = good;
  bad.object.clear();
  EXPECT_FALSE(load(bad));
  for (const std::size_t keep : {1u, 16u, 63u, 64u, 200u}) {
    bad.object.assign(good.object.begin(), good.object.begin() + static_cast<std::ptrdiff_t>(keep));
    EXPECT_FALSE(load(bad)) << keep << " bytes";
  }
  bad = good;
  std::fill(bad.object.begin(), bad.object.begin() + 16, std::byte{0});
  const auto result = load(bad);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::CompileFailed);
}

TEST(Loader, AnotherSymbolIsAnError) {
  Artifact artifact = compiled(scale(2));
  artifact.symbol = "other";
  const auto result = load(artifact);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("other"), std::string::npos) << result.error().message();
}

TEST(Loader, OnlyAllowedSymbolsResolve) {
  Artifact artifact = compiled(swap());
  const LoadedKernel kernel = load(artifact).value();
  std::vector<float> x(64 * 64, 5.0f), y(x.size());
  const std::vector<Argument> arguments{
      ViewArgument{std::as_writable_bytes(std::span(x)), 0, {64, 64}, {64, 1}},
      ViewArgument{std::as_writable_bytes(std::span(y)), 0, {64, 64}, {64, 1}}};
  EXPECT_EQ(run(kernel, pack(arguments)).code, 0);
  // (5, 0) -> (1, 5) -> (6, 1) -> (2, 6)
  EXPECT_EQ(y, std::vector<float>(x.size(), -4.0f));

  constexpr std::string_view kCopy = "memcpy";
  const auto found = std::search(artifact.object.begin(), artifact.object.end(), kCopy.begin(), kCopy.end(),
                                 [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
  ASSERT_NE(found, artifact.object.end());
  *found = static_cast<std::byte>('q');
  const auto result = load(artifact);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("qemcpy"), std::string::npos) << result.error().message();
}

TEST(Loader, TwoThreadsCompileAndLoad) {
  std::vector<std::vector<double>> times(2);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < times.size(); ++t) {
    threads.emplace_back([&times, t] {
      for (int i = 0; i < 100; ++i) {
        const double factor = static_cast<double>(t * 1000 + static_cast<std::size_t>(i));
        const Artifact artifact = compiled(scale(factor), "kernel_" + std::to_string(i));
        EXPECT_EQ(call(load(artifact).value(), {1, 2}),
                  (std::vector<float>{static_cast<float>(factor), static_cast<float>(2 * factor)}));
        times[t].push_back(artifact.facts.compile_ms);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::vector<double>& series : times) std::sort(series.begin(), series.end());
  RecordProperty("median_compile_ms", std::to_string(times[0][50]));
}

}  // namespace
}  // namespace kiln::jit
