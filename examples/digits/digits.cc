// Reads handwritten digits with two models of run-time batch: a small convolutional network and a multilayer
// perceptron. Uses nothing but the installed headers and library.
//
//   digits FOLDER [--cache FILE] [--warm]
//
// FOLDER holds the models and the held-out images. --warm says that the kernel cache has served these models
// before, so that nothing may be left to compile. Exit status 1: accuracy below 97 %, a node on a reference
// kernel, or a compiled kernel in spite of --warm. Exit status 2: an error.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <kiln/kiln.h>
#include <kiln/tensor_file.h>

namespace {

constexpr std::array<std::int64_t, 5> kBatches = {1, 3, 8, 64, 200};
constexpr double kLeastAccuracy = 0.97;
constexpr int kMeasuredRuns = 200;

struct HeldOut {
  kiln::Tensor images;  // [n, 1, 8, 8], f32, 0 to 16
  kiln::Tensor labels;  // [n], i64

  std::int64_t count() const { return labels.elements(); }

  // Images first .. first + count, in place.
  kiln::Tensor batch(std::int64_t first, std::int64_t count) {
    const std::int64_t image_bytes = images.byte_size() / images.extents()[0];
    return kiln::Tensor::view(kiln::DType::F32, {count, 1, 8, 8},
                              images.mutable_data() + first * image_bytes);
  }
};

HeldOut read_held_out(const std::string& folder) {
  HeldOut held_out{kiln::read_tensor(folder + "/test_images.npy"),
                   kiln::read_tensor(folder + "/test_labels.npy")};
  const kiln::Extents expected = {held_out.count(), 1, 8, 8};
  if (held_out.images.dtype() != kiln::DType::F32 || held_out.labels.dtype() != kiln::DType::I64 ||
      held_out.labels.rank() != 1 || held_out.images.extents() != expected) {
    throw kiln::Error(kiln::ErrorKind::Caller, kiln::ErrorCode::ShapeMismatch,
                      "the images are not f32 [n, 1, 8, 8] with n labels of i64");
  }
  return held_out;
}

// Runs all images in batches of `batch`, the last one smaller; gives how many digits were read right.
std::int64_t count_right(const kiln::Session& session, HeldOut& held_out, std::int64_t batch) {
  const auto labels = held_out.labels.as<std::int64_t>();
  std::int64_t right = 0;
  for (std::int64_t first = 0; first < held_out.count(); first += batch) {
    const std::int64_t count = std::min(batch, held_out.count() - first);
    const kiln::Tensor probabilities = session.run({{"image", held_out.batch(first, count)}}).at(0);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto row = probabilities.as<float>().subspan(static_cast<std::size_t>(10 * i), 10);
      const auto digit = std::max_element(row.begin(), row.end()) - row.begin();
      right += digit == labels[static_cast<std::size_t>(first + i)];
    }
  }
  return right;
}

// Median time of one run into memory that is already there, in milliseconds.
double median_latency(const kiln::Session& session, HeldOut& held_out, std::int64_t batch) {
  const std::vector<kiln::Tensor> inputs = {held_out.batch(0, batch)};
  std::vector<kiln::Tensor> outputs = {kiln::Tensor(kiln::DType::F32, {batch, 10})};
  std::vector<double> times;
  for (int i = 0; i < kMeasuredRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    session.run(inputs, outputs);
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + kMeasuredRuns / 2, times.end());
  return times[kMeasuredRuns / 2];
}

// Prints what one model does; gives whether all is as it must be.
bool read_digits(const std::string& folder, const std::string& model, HeldOut& held_out,
                 const kiln::Options& options, bool warm) {
  const kiln::Session session = kiln::Session::load(folder + "/" + model, options);
  std::printf("%s, %d threads, %lld held-out images\n", model.c_str(), session.threads(),
              static_cast<long long>(held_out.count()));
  std::printf("  batch  accuracy  latency (median of %d)     images/s\n", kMeasuredRuns);
  bool good = true;
  std::int64_t fallback_nodes = 0;
  for (const std::int64_t batch : kBatches) {
    const double accuracy =
        static_cast<double>(count_right(session, held_out, batch)) / static_cast<double>(held_out.count());
    const double latency_ms = median_latency(session, held_out, batch);
    std::printf("  %5lld  %6.2f %%  %19.4f ms  %11.0f\n", static_cast<long long>(batch), 100 * accuracy,
                latency_ms, static_cast<double>(batch) / latency_ms * 1000);
    good = good && accuracy >= kLeastAccuracy;
    fallback_nodes = std::max(fallback_nodes, session.stats().fallback_nodes);
  }
  const kiln::SessionStats stats = session.stats();
  std::printf("  kernels: %lld compiled, %lld from the cache; nodes on reference kernels: %lld\n",
              static_cast<long long>(stats.kernels_compiled),
              static_cast<long long>(stats.kernels_from_cache), static_cast<long long>(fallback_nodes));
  for (const auto& [node, reason] : stats.fallbacks)
    std::printf("  on a reference kernel: %s: %s\n", node.c_str(), reason.c_str());
  return good && fallback_nodes == 0 && !(warm && stats.kernels_compiled > 0);
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  kiln::Options options;
  bool warm = false, usable = true;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--warm") == 0) {
      warm = true;
    } else if (std::strcmp(argv[i], "--cache") == 0 && i + 1 < argc) {
      options.cache = argv[++i];
    } else if (argv[i][0] != '-' && folder.empty()) {
      folder = argv[i];
    } else {
      usable = false;
    }
  }
  if (folder.empty() || !usable) {
    std::fprintf(stderr, "usage: digits FOLDER [--cache FILE] [--warm]\n");
    return 2;
  }
  try {
    HeldOut held_out = read_held_out(folder);
    bool good = true;
    for (const char* model : {"digits_cnn.onnx", "digits_mlp.onnx"})
      good = read_digits(folder, model, held_out, options, warm) && good;
    std::printf(good ? "digits: all as expected\n" : "digits: NOT as expected\n");
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 2;
  }
}
