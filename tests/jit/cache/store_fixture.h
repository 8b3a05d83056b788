// Folders, keys and Artifacts for the tests of the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jit/cache/store.h"

namespace kiln::jit {

inline ArtifactKey test_key(int number, int rows = 6, Isa isa = Isa::X86_64_V3,
                            std::string_view llvm = "22.1") {
  std::vector<std::byte> kernel(40, std::byte{7});
  for (int i = 0; i < 4; ++i) kernel.push_back(static_cast<std::byte>(number >> (8 * i)));
  tile::Schedule schedule;
  schedule.register_rows = rows;
  Target target;
  target.isa = isa;
  return artifact_key(kernel, schedule, target, llvm);
}

// Content that depends on the key alone, so that any hit can be checked.
inline Artifact test_artifact(const ArtifactKey& key, std::size_t bytes = 3000) {
  Artifact artifact;
  artifact.symbol = key.symbol();
  std::mt19937 random(static_cast<unsigned>(digest(key.canonical)));
  artifact.object.resize(bytes);
  for (std::byte& byte : artifact.object) byte = static_cast<std::byte>(random());
  artifact.facts = {1.5, static_cast<std::int64_t>(bytes), 3};
  return artifact;
}

inline bool same(const Artifact& a, const Artifact& b) {
  return a.symbol == b.symbol && a.object == b.object && a.facts.compile_ms == b.facts.compile_ms &&
         a.facts.code_bytes == b.facts.code_bytes && a.facts.spills == b.facts.spills;
}

inline bool holds(Store& store, const ArtifactKey& key, std::size_t bytes = 3000) {
  const Result<Artifact> found = store.find(key);
  return found && same(*found, test_artifact(key, bytes));
}

// Runs `body` in a forked process; true if it returned true there.
inline bool in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    // In memory if possible: waiting for a disk to flush proves nothing here.
    const std::filesystem::path memory = "/dev/shm";
    const auto base = access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    std::string pattern = base / "kiln_store_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string& name = "kernels.sqlite") const { return folder / name; }
  std::unique_ptr<Store> open(const std::string& file, std::int64_t max_bytes = 64 << 20,
                              std::vector<std::string> layers = {}) {
    StoreOptions options;
    options.path = file;
    options.max_bytes = max_bytes;
    options.access_granularity = 0;
    options.layers = std::move(layers);
    options.warn = [this](std::string_view line) { log.emplace_back(line); };
    return std::make_unique<Store>(std::move(options));
  }
  std::unique_ptr<Store> open() { return open(path()); }
  bool logged(std::string_view part) const {
    for (const std::string& line : log) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

  std::filesystem::path folder;
  std::vector<std::string> log;
};

}  // namespace kiln::jit
