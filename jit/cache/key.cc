#include "jit/cache/key.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "ir/base/byte_writer.h"
#include "jit/kernel_abi.h"
#include "kiln_generator_hash.h"

namespace kiln::jit {
namespace {

constexpr std::uint32_t kKeyFormatVersion = 1;
constexpr std::uint32_t kTileIrVersion = 1;
constexpr std::string_view kTriple = "x86_64-unknown-linux-gnu";

std::vector<std::byte> versions_section() {
  ByteWriter writer;
  writer.u32(kKeyFormatVersion);
  writer.u32(kTileIrVersion);
  writer.u32(kKernelAbiVersion);
  return writer.take();
}

// The bindings below name every member, so that a new one does not compile until it is written here.

std::vector<std::byte> schedule_section(const tile::Schedule& schedule) {
  const auto& [vector_unroll, register_rows, register_vectors, contract_unroll, contract_block, pack_a,
               pack_b, grid_order] = schedule;
  ByteWriter writer;
  writer.i64(vector_unroll);
  writer.i64(register_rows);
  writer.i64(register_vectors);
  writer.i64(contract_unroll);
  writer.i64(contract_block);
  writer.boolean(pack_a);
  writer.boolean(pack_b);
  writer.u64(grid_order.size());
  for (const int dimension : grid_order) writer.i64(dimension);
  return writer.take();
}

// Cache sizes count because a Schedule's zero fields mean "the Target's default", which comes from them.
std::vector<std::byte> target_section(const Target& target) {
  const auto& [isa, avx512_bf16, avx512_vnni, amx_bf16, amx_int8, l1_bytes, l2_bytes] = target;
  ByteWriter writer;
  writer.text(kTriple);
  writer.text(name(isa));
  writer.boolean(avx512_bf16);
  writer.boolean(avx512_vnni);
  writer.boolean(amx_bf16);
  writer.boolean(amx_int8);
  writer.i64(l1_bytes);
  writer.i64(l2_bytes);
  return writer.take();
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::string_view(reinterpret_cast<const char*>(a.data()), a.size()) ==
         std::string_view(reinterpret_cast<const char*>(b.data()), b.size());
}

}  // namespace

ArtifactKey artifact_key(std::span<const std::byte> canonical_kernel, const tile::Schedule& schedule,
                         const Target& target, std::string_view llvm_version) {
  ByteWriter writer;
  writer.bytes(versions_section());
  writer.bytes(canonical_kernel);
  writer.bytes(schedule_section(schedule));
  writer.bytes(target_section(target));
  writer.text(llvm_version);
  writer.text(kGeneratorHash);
  return key_of(writer.take());
}

ArtifactKey key_of(std::vector<std::byte> canonical) {
  const XXH128_hash_t hash = XXH3_128bits(canonical.data(), canonical.size());
  return {std::move(canonical), fmt::format("{:016x}{:016x}", hash.high64, hash.low64)};
}

std::optional<KeySections> sections_of(std::span<const std::byte> canonical) {
  KeySections sections;
  for (auto* section : {&sections.versions, &sections.kernel, &sections.schedule, &sections.target,
                        &sections.llvm, &sections.generator}) {
    if (canonical.size() < 8) return std::nullopt;
    std::uint64_t length = 0;
    for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(canonical[i]);
    canonical = canonical.subspan(8);
    if (length > canonical.size()) return std::nullopt;
    *section = canonical.first(length);
    canonical = canonical.subspan(length);
  }
  if (!canonical.empty()) return std::nullopt;
  return sections;
}

std::string difference(const KeySections& ours, const KeySections& theirs) {
  std::vector<std::string_view> parts;
  if (!equal(ours.versions, theirs.versions)) parts.push_back("format version");
  if (!equal(ours.kernel, theirs.kernel)) parts.push_back("kernel");
  if (!equal(ours.schedule, theirs.schedule)) parts.push_back("schedule");
  if (!equal(ours.target, theirs.target)) parts.push_back("target");
  if (!equal(ours.llvm, theirs.llvm)) parts.push_back("LLVM version");
  if (!equal(ours.generator, theirs.generator)) parts.push_back("version of Kiln's code generator");
  if (parts.empty()) return {};
  return fmt::format("another {}", fmt::join(parts, " and another "));
}

std::uint64_t digest(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace kiln::jit
