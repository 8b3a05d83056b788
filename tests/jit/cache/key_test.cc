#include "jit/cache/key.h"

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace kiln::jit {
namespace {

const std::vector<std::byte> kKernel(33, std::byte{5});

std::string hex(const tile::Schedule& schedule, const Target& target = {}, std::string_view llvm = "22.1.8") {
  return artifact_key(kKernel, schedule, target, llvm).hex;
}

TEST(ArtifactKey, IsEqualForEqualInputs) {
  EXPECT_EQ(hex({}), hex({}));
  EXPECT_EQ(hex({}).size(), 32u);
  EXPECT_EQ(hex({}).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(ArtifactKey, DependsOnEveryFieldOfTheSchedule) {
  const std::vector<std::function<void(tile::Schedule&)>> changes = {
      [](auto& s) { s.vector_unroll = 2; },    [](auto& s) { s.register_rows = 2; },
      [](auto& s) { s.register_vectors = 2; }, [](auto& s) { s.contract_unroll = 2; },
      [](auto& s) { s.contract_block = 2; },   [](auto& s) { s.pack_a = true; },
      [](auto& s) { s.pack_b = true; },        [](auto& s) { s.grid_order = {0, 1}; },
      [](auto& s) { s.grid_order = {1, 0}; },  [](auto& s) { s.grid_order = {0}; },
  };
  std::set<std::string> keys = {hex({})};
  for (const auto& change : changes) {
    tile::Schedule schedule;
    change(schedule);
    EXPECT_TRUE(keys.insert(hex(schedule)).second);
  }
}

TEST(ArtifactKey, DependsOnEveryFieldOfTheTarget) {
  const std::vector<std::function<void(Target&)>> changes = {
      [](auto& t) { t.isa = Isa::X86_64_V4; }, [](auto& t) { t.avx512_bf16 = true; },
      [](auto& t) { t.avx512_vnni = true; },   [](auto& t) { t.amx_bf16 = true; },
      [](auto& t) { t.amx_int8 = true; },      [](auto& t) { t.l1_bytes *= 2; },
      [](auto& t) { t.l2_bytes *= 2; },
  };
  std::set<std::string> keys = {hex({})};
  for (const auto& change : changes) {
    Target target;
    change(target);
    EXPECT_TRUE(keys.insert(hex({}, target)).second);
  }
}

TEST(ArtifactKey, DependsOnKernelAndCompiler) {
  EXPECT_NE(hex({}), hex({}, {}, "22.1.9"));
  const std::vector<std::byte> longer(34, std::byte{5});
  EXPECT_NE(artifact_key(longer, {}, {}, "22.1.8").hex, hex({}));
}

TEST(KeySections, AreWhatWentIn) {
  const ArtifactKey key = artifact_key(kKernel, {}, {}, "22.1.8");
  const auto sections = sections_of(key.canonical);
  ASSERT_TRUE(sections.has_value());
  EXPECT_EQ(std::vector<std::byte>(sections->kernel.begin(), sections->kernel.end()), kKernel);
  EXPECT_EQ(sections->llvm.size(), 6u);
  EXPECT_EQ(sections->generator.size(), 32u);
}

TEST(KeySections, RefuseEveryOtherLength) {
  const ArtifactKey key = artifact_key(kKernel, {}, {}, "22.1.8");
  for (std::size_t length = 0; length < key.canonical.size(); ++length) {
    EXPECT_FALSE(sections_of(std::span(key.canonical).first(length)).has_value());
  }
  std::vector<std::byte> longer = key.canonical;
  longer.push_back({});
  EXPECT_FALSE(sections_of(longer).has_value());
  EXPECT_FALSE(sections_of(std::vector<std::byte>(200, std::byte{0xff})).has_value());
}

TEST(KeySections, DifferenceNamesTheParts) {
  const ArtifactKey ours = artifact_key(kKernel, {}, {}, "22.1.8");
  tile::Schedule schedule;
  schedule.pack_a = true;
  const ArtifactKey theirs = artifact_key(kKernel, schedule, {}, "22.1.9");
  EXPECT_EQ(difference(*sections_of(ours.canonical), *sections_of(theirs.canonical)),
            "another schedule and another LLVM version");
  EXPECT_EQ(difference(*sections_of(ours.canonical), *sections_of(ours.canonical)), "");
}

}  // namespace
}  // namespace kiln::jit
