// ONNX's conformance tests through frontend and reference kernels: as declared, with the declared dims
// hidden, and with inputs turned into constants. From Debian's libonnx-testdata, and from the archives of
// newer tests where KILN_SHARED (by default ../shared beside the source) has them. KILN_REPORT prints why
// tests were skipped.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <kiln/error.h>
#include <unistd.h>

#include "frontend/onnx/loader.h"
#include "frontend/onnx/tensor_file.h"
#include "ir/base/narrow_types.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/reference.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

struct Comparison {
  double relative = 1e-3, absolute = 1e-7;
  bool shape_only = false;
  const char* skip = nullptr;  // why the test is not run
};

// How a test in this folder is compared: by the rules of `kiln verify`.
Comparison comparison_of(const std::string& folder) {
  struct Rule {
    const char* pattern;
    Comparison comparison;
  };
  static constexpr Rule kRules[] = {
#define KILN_TOLERANCE(pattern, relative, absolute, reason) {pattern, {relative, absolute, false, nullptr}},
#define KILN_SHAPE_ONLY(pattern, reason) {pattern, {0, 0, true, nullptr}},
#define KILN_SKIP(pattern, reason) {pattern, {0, 0, false, reason}},
#include "tools/verify_rules.def"
#undef KILN_TOLERANCE
#undef KILN_SHAPE_ONLY
#undef KILN_SKIP
  };
  for (const Rule& rule : kRules) {
    if (fnmatch(rule.pattern, folder.c_str(), 0) == 0) return rule.comparison;
  }
  return {};
}

// Why `got` is not `want`, or nothing.
std::string difference(const Tensor& got, const Tensor& want, const Comparison& comparison) {
  if (got.dtype() != want.dtype()) {
    return fmt::format("got {}, expected {}", name(got.dtype()), name(want.dtype()));
  }
  if (got.extents() != want.extents()) {
    return fmt::format("got {}, expected {}", to_string(got.extents()), to_string(want.extents()));
  }
  if (comparison.shape_only) return {};
  if (want.dtype() == DType::String) return got == want ? "" : "texts differ";
  if (dtype_class(want.dtype()) == DTypeClass::Complex) return got == want ? "" : "complex elements differ";
  const std::vector<double> a = reference::to_numbers(got), b = reference::to_numbers(want);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool equal = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (!equal && !(std::abs(a[i] - b[i]) <= comparison.absolute + comparison.relative * std::abs(b[i]))) {
      return fmt::format("element {} is {}, expected {}", i, a[i], b[i]);
    }
  }
  return {};
}

std::string difference(const Datum& got, const Datum& want, const Comparison& comparison) {
  if (got.is_tensor() && want.is_tensor()) return difference(got.tensor(), want.tensor(), comparison);
  if (!got.is_sequence() || !want.is_sequence())
    return got == want ? "" : fmt::format("got {}, expected {}", to_string(got), to_string(want));
  const std::vector<Datum>& items = got.sequence().items;
  if (items.size() != want.sequence().items.size())
    return fmt::format("got {}, expected {}", to_string(got), to_string(want));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string problem = difference(items[i], want.sequence().items[i], comparison);
    if (!problem.empty()) return fmt::format("item {}: {}", i, problem);
  }
  return {};
}

// Files of older tests hold bf16 as u16.
Datum as_declared(Datum stored, DType declared) {
  if (!stored.is_tensor() || stored.tensor().dtype() != DType::U16 || declared != DType::BF16) return stored;
  Tensor result(DType::BF16, stored.tensor().extents());
  std::copy_n(stored.tensor().data(), stored.tensor().byte_size(), result.mutable_data());
  return result;
}

// What the files hold for these inputs or outputs of the graph.
std::vector<Datum> read_data(const fs::path& folder, const char* prefix, const graph::Graph& graph,
                             const std::vector<graph::ValueId>& ids) {
  std::vector<Datum> data;
  for (const graph::ValueId id : ids) {
    const graph::Value& value = graph.value(id);
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, data.size());
    data.push_back(
        as_declared(frontend::read_datum_pb(path, value.container, value.dtype).datum, value.dtype));
  }
  EXPECT_FALSE(fs::exists(folder / fmt::format("{}_{}.pb", prefix, data.size()))) << folder;
  return data;
}

enum class Mode { Declared, HiddenDims, HiddenRanks, ConstantInputs };

class Suite {
 public:
  // Runs every test folder under `root`.
  void run(const fs::path& root) {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().filename() == "model.onnx") folders.push_back(entry.path().parent_path());
    }
    std::sort(folders.begin(), folders.end());
    for (const fs::path& folder : folders) run_test(folder);
  }

  void print(const char* title) const {
    std::printf("%s: %d passed, %d failed, %d skipped\n", title, passed_, failed_, skipped_);
    if (std::getenv("KILN_REPORT") == nullptr) return;
    std::vector<std::pair<int, std::string>> sorted;
    for (const auto& [why, count] : why_skipped_) sorted.emplace_back(-count, why);
    std::sort(sorted.begin(), sorted.end());
    for (const auto& [count, why] : sorted) std::printf("  %4d skipped: %s\n", -count, why.c_str());
  }

  int passed() const { return passed_; }

 private:
  void skip(const std::string& why) {
    ++skipped_;
    ++why_skipped_[why];
  }

  void run_test(const fs::path& folder) {
    const std::string test = folder.filename();
    const Comparison comparison = comparison_of(folder);
    if (comparison.skip != nullptr) return skip(comparison.skip);
    std::string problem;
    for (const Mode mode : {Mode::Declared, Mode::HiddenDims, Mode::HiddenRanks, Mode::ConstantInputs}) {
      try {
        problem = run_mode(folder, mode, comparison);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::Unsupported && mode == Mode::Declared) return skip(error.message());
        problem = error.what();
      }
      if (problem.empty()) continue;
      static constexpr const char* kNames[] = {"as declared", "with hidden dims", "with hidden ranks",
                                               "with constant inputs"};
      ADD_FAILURE() << test << " " << kNames[static_cast<int>(mode)] << ": " << problem;
      ++failed_;
      return;
    }
    ++passed_;
  }

  static std::string run_mode(const fs::path& folder, Mode mode, const Comparison& comparison) {
    for (int set = 0;; ++set) {
      const fs::path data = folder / fmt::format("test_data_set_{}", set);
      if (!fs::is_directory(data)) return set == 0 ? "no data" : "";
      frontend::LoadOptions options;
      options.hide_dims = mode == Mode::HiddenDims;
      options.hide_rank = mode == Mode::HiddenRanks;
      graph::Graph graph = frontend::load_model(folder / "model.onnx", options);
      std::vector<Datum> inputs = read_data(data, "input", graph, graph.inputs);
      const std::vector<Datum> want = read_data(data, "output", graph, graph.outputs);
      if (mode == Mode::ConstantInputs) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          if (!inputs[i].is_tensor()) continue;
          options.constant_inputs.emplace(graph.value(graph.inputs[i]).name, inputs[i].tensor());
        }
        std::erase_if(inputs, [](const Datum& input) { return input.is_tensor(); });
        graph = frontend::load_model(folder / "model.onnx", options);
      }
      const std::vector<Datum> got = reference::evaluate(graph, inputs);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::string problem = difference(got[i], want[i], comparison);
        if (!problem.empty()) return fmt::format("output {}: {}", i, problem);
      }
    }
  }

  int passed_ = 0, failed_ = 0, skipped_ = 0;
  std::map<std::string, int> why_skipped_;
};

fs::path shared_folder() {
  const char* shared = std::getenv("KILN_SHARED");
  return shared != nullptr ? shared : KILN_SOURCE_DIR "/../shared";
}

// A folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / fmt::format("kiln-conformance-{}", getpid())) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Debian : public testing::TestWithParam<const char*> {};

TEST_P(Debian, AgreesWithTheReferenceKernels) {
  const fs::path root = fs::path("/usr/share/libonnx-testdata/data") / GetParam();
  if (!fs::is_directory(root)) GTEST_SKIP() << "no folder " << root;
  Suite suite;
  suite.run(root);
  suite.print(GetParam());
  EXPECT_GT(suite.passed(), 0);
}
INSTANTIATE_TEST_SUITE_P(Conformance, Debian,
                         testing::Values("node", "simple", "pytorch-operator", "pytorch-converted"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Newest : public testing::TestWithParam<const char*> {};

TEST_P(Newest, AgreesWithTheReferenceKernels) {
  const fs::path archive = shared_folder() / "onnx-backend-tests" / (std::string(GetParam()) + ".tar.xz");
  if (!fs::exists(archive)) GTEST_SKIP() << "no archive " << archive;
  const TemporaryFolder folder;
  const std::string unpack = fmt::format("tar -xJf '{}' -C '{}'", archive.string(), folder.path().string());
  ASSERT_EQ(std::system(unpack.c_str()), 0) << unpack;  // NOLINT(bugprone-command-processor): our own words
  Suite suite;
  suite.run(folder.path());
  suite.print(GetParam());
  EXPECT_GT(suite.passed(), 0);
}
INSTANTIATE_TEST_SUITE_P(Conformance, Newest, testing::Values("node", "simple", "light"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace kiln
