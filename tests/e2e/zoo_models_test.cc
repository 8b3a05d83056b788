// Whole models on generated kernels against the same model computed in f64 by the reference kernels: for each
// instruction set, from a cold and a warm cache, with one thread and two, at several sizes, without a single
// fallback.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <kiln/kiln.h>
#include <unistd.h>

#include "tests/support/zoo.h"

namespace kiln {
namespace {

using Dims = std::vector<std::pair<std::string, std::int64_t>>;

struct ModelCase {
  std::string name;
  std::vector<Dims> sizes;
};

std::vector<Dims> batches(std::initializer_list<std::int64_t> values) {
  std::vector<Dims> result;
  for (const std::int64_t value : values) result.push_back({{"batch", value}});
  return result;
}

std::vector<Dims> text_sizes(std::initializer_list<std::int64_t> batch_sizes,
                             std::initializer_list<std::int64_t> lengths) {
  std::vector<Dims> result;
  for (const std::int64_t batch : batch_sizes) {
    for (const std::int64_t length : lengths) result.push_back({{"batch", batch}, {"seq", length}});
  }
  return result;
}

const ModelCase kCases[] = {
    {"mlp", batches({1, 3, 8, 200})},
    {"mnist_cnn", batches({1, 3, 8, 200})},
    {"resnet18", batches({1, 3, 8})},
    {"mobilenet_v2", batches({1, 3, 8})},
    {"vit_tiny__op17", batches({1, 3, 8})},
    {"vit_tiny__op13", batches({1, 3, 8})},
    {"bert_mini_L6H384", text_sizes({1, 3, 8}, {17, 128})},
};

class ZooModels : public ::testing::TestWithParam<ModelCase> {};

TEST_P(ZooModels, AgreeWithTheTruthWithoutFallback) {
  const auto path = testing::zoo_model(GetParam().name);
  if (!path) GTEST_SKIP() << "the zoo's generator is not here";
  const std::filesystem::path cache_folder =
      std::filesystem::temp_directory_path() / fmt::format("kiln-e2e-{}-{}", ::getpid(), GetParam().name);
  Options truth_options;
  truth_options.kernels = KernelChoice::Reference64;
  const Session truth = Session::load(*path, truth_options);
  std::vector<std::vector<NamedTensor>> inputs;
  std::vector<std::vector<Tensor>> want;
  for (const Dims& dims : GetParam().sizes) {
    inputs.push_back(testing::random_inputs(truth, dims, 7));
    want.push_back(truth.run(inputs.back()));
  }
  for (const char* target : {"x86-64-v4", "x86-64-v3"}) {
    for (const bool warm : {false, true}) {
      Options options;
      options.target = target;
      options.cache = (cache_folder / fmt::format("{}.sqlite", target)).string();
      options.threads = warm ? 2 : 1;
      std::unique_ptr<Session> session;
      try {
        session = std::make_unique<Session>(Session::load(*path, options));
      } catch (const Error& error) {
        if (std::string(error.what()).find("target") == std::string::npos) throw;
        continue;  // this machine lacks the instruction set
      }
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::vector<Tensor> got = session->run(inputs[i]);
        ASSERT_EQ(got.size(), want[i].size());
        for (std::size_t k = 0; k < got.size(); ++k) {
          EXPECT_LE(testing::relative_error(got[k], want[i][k]), 1e-5)
              << target << " size " << i << " output " << k;
        }
      }
      const SessionStats stats = session->stats();
      EXPECT_EQ(stats.fallback_nodes, 0)
          << (stats.fallbacks.empty() ? "" : stats.fallbacks[0].first + ": " + stats.fallbacks[0].second);
      if (warm) {
        EXPECT_EQ(stats.kernels_compiled, 0) << "a warm cache compiles nothing";
      }
    }
  }
  std::filesystem::remove_all(cache_folder);
}

INSTANTIATE_TEST_SUITE_P(All, ZooModels, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace kiln
