// Real models, where they are present: each loads, or is refused with an error that names an operator.
#include <cstdlib>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kiln/error.h>

#include "frontend/onnx/loader.h"
#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

std::filesystem::path real_models() {
  const char* shared = std::getenv("KILN_SHARED");
  const std::filesystem::path root = shared != nullptr ? shared : KILN_SOURCE_DIR "/../shared";
  return root / "zoo" / "real";
}

// Operators that these models have and that cannot be loaded.
const std::set<std::string> kRefused = {
    "Attention", "EmbedLayerNormalization", "GRU",  "GreedySearch", "If",
    "LSTM",      "LinearClassifier",        "Loop", "Normalizer",   "Scan",
    "ZipMap"};

TEST(Zoo, RealModelsLoadOrNameTheOperator) {
  if (!std::filesystem::is_directory(real_models())) GTEST_SKIP() << "no folder " << real_models();
  int loaded = 0;
  for (const auto& entry : std::filesystem::directory_iterator(real_models())) {
    if (entry.path().extension() != ".onnx") continue;
    for (const bool hide_dims : {false, true}) {
      LoadOptions options;
      options.hide_dims = hide_dims;
      try {
        const graph::Graph graph = load_model(entry.path().string(), options);
        EXPECT_GT(graph.node_count(), 0U) << entry.path();
        ++loaded;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Caller) << entry.path() << ": " << error.what();
        std::string op;
        for (const auto& [key, value] : error.context()) {
          if (key == "op") op = value;
        }
        EXPECT_TRUE(kRefused.contains(op)) << entry.path() << ": " << error.what();
      }
    }
  }
  EXPECT_GE(loaded, 40);
}

// The generated models are all of these operators; KILN_ZOO names the folder that gen_zoo.py wrote.
TEST(Zoo, GeneratedModelsLoad) {
  const char* folder = std::getenv("KILN_ZOO");
  if (folder == nullptr) GTEST_SKIP() << "KILN_ZOO names no folder";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".onnx") continue;
    try {
      EXPECT_GT(load_model(entry.path().string()).node_count(), 0U);
    } catch (const Error& error) {
      ADD_FAILURE() << entry.path() << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace kiln::frontend
