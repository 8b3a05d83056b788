// What identifies compiled code: everything that its bytes depend on, and nothing else. Time, paths, host,
// CPU name, environment and names inside the Kernel are not in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/target.h"
#include "ir/tile/schedule.h"

namespace kiln::jit {

struct ArtifactKey {
  // What the key is a hash of: the sections of sections_of(), each length-prefixed. Kept beside the code and
  // compared on a hit, so that a collision of hashes is a miss.
  std::vector<std::byte> canonical;
  std::string hex;  // XXH3-128 of `canonical`, 32 lower-case hex digits

  std::string symbol() const { return "kiln_" + hex; }
};

// The key of compile(kernel, schedule, target) by this build of Kiln on LLVM `llvm_version`, for the kernel
// with these canonical_bytes(): Kernels that differ in names alone share a key.
ArtifactKey artifact_key(std::span<const std::byte> canonical_kernel, const tile::Schedule& schedule,
                         const Target& target, std::string_view llvm_version);

// The key whose canonical bytes are these, whether or not they make sense.
ArtifactKey key_of(std::vector<std::byte> canonical);

// Canonical bytes taken apart, to say in which part two keys differ. Spans point into the input.
struct KeySections {
  std::span<const std::byte> versions;  // format, tile IR, kernel ABI
  std::span<const std::byte> kernel;    // canonical_bytes(kernel)
  std::span<const std::byte> schedule;
  std::span<const std::byte> target;  // triple, features, and the cache sizes that defaults come from
  std::span<const std::byte> llvm;
  std::span<const std::byte> generator;  // hash of the sources that generate code
};
std::optional<KeySections> sections_of(std::span<const std::byte> canonical);

// Where `theirs` differs from `ours`, in words: "another schedule and target". Empty if nowhere.
std::string difference(const KeySections& ours, const KeySections& theirs);

// XXH3-64; not for anything that an adversary may choose.
std::uint64_t digest(std::span<const std::byte> bytes);

}  // namespace kiln::jit
