// One Session, many threads, random batch sizes: every output is bit-equal to a serial run of the same size,
// a new size compiles nothing, and memory stays flat.
#include <atomic>
#include <barrier>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <unistd.h>

#include "tests/support/interpreted_run.h"

namespace kiln {
namespace {

constexpr int kThreads = 100, kMaxBatch = 64;

constexpr int kRuns = 2000;

// A sanitizer's shadow memory hides what the runs keep.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasureMemory = false;
#else
constexpr bool kMeasureMemory = true;
#endif

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(Concurrency, EveryRunEqualsTheSerialOne) {
  Options options;
  options.cache = "off";
  const Session session = Session::load(KILN_SOURCE_DIR "/examples/digits/digits_cnn.onnx", options);
  const ValueInfo& input = session.inputs()[0];
  std::map<int, Tensor> inputs;
  std::map<int, std::vector<Tensor>> want;
  for (int batch = 1; batch <= kMaxBatch; ++batch) {
    Extents extents{batch};
    for (std::size_t axis = 1; axis < input.shape->size(); ++axis)
      extents.push_back((*input.shape)[axis].extent);
    inputs[batch] = testing::random_tensor(DType::F32, extents, static_cast<std::uint64_t>(batch));
    want[batch] = session.run({{input.name, inputs[batch]}});
  }
  const std::int64_t compiled = session.stats().kernels_compiled;
  std::atomic<int> next = 0, wrong = 0;
  std::atomic<std::int64_t> resident_early = 0;
  std::barrier all_here(kThreads);  // run 0 begins when every thread is there
  const auto work = [&] {
    all_here.arrive_and_wait();
    for (int run = next++; run < kRuns; run = next++) {
      const int batch = 1 + static_cast<int>(std::mt19937(static_cast<unsigned>(run))() % kMaxBatch);
      const std::vector<Tensor> got = session.run({{input.name, inputs.at(batch)}});
      if (!(got[0] == want.at(batch)[0])) ++wrong;
      if (run == kRuns / 4) resident_early = resident_bytes();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(session.stats().kernels_compiled, compiled);
  if (kMeasureMemory) {
    EXPECT_LE(static_cast<double>(resident_bytes()), 1.03 * static_cast<double>(resident_early));
  }
}

TEST(Concurrency, ANewSizeCompilesNothing) {
  Options options;
  options.cache = "off";
  const Session session = Session::load(KILN_SOURCE_DIR "/examples/digits/digits_cnn.onnx", options);
  const ValueInfo& input = session.inputs()[0];
  std::int64_t compiled = 0;
  for (const std::int64_t batch : {5, 1, 7, 64, 200}) {
    Extents extents{batch};
    for (std::size_t axis = 1; axis < input.shape->size(); ++axis)
      extents.push_back((*input.shape)[axis].extent);
    session.run({{input.name, testing::random_tensor(DType::F32, extents, 3)}});
    if (compiled == 0) compiled = session.stats().kernels_compiled;
    EXPECT_GT(compiled, 0);
    EXPECT_EQ(session.stats().kernels_compiled, compiled);
  }
}

}  // namespace
}  // namespace kiln
