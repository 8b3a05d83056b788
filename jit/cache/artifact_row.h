// One row of the table of Artifacts, and the check that it is what was written. Internal to jit/cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/artifact.h"
#include "jit/cache/key.h"
#include "jit/cache/sqlite.h"

namespace kiln::jit {

// The columns that ArtifactRow reads, in its order; a SELECT may add conditions and an order.
constexpr std::string_view kSelectArtifacts =
    "SELECT key, accessed, checksum, symbol, facts, canonical, object, bytes FROM artifacts ";

// Views into the row that the Statement stands on.
struct ArtifactRow {
  std::span<const std::byte> key;  // 16 bytes
  std::int64_t accessed = 0;
  std::uint64_t checksum = 0;
  std::string symbol;
  std::span<const std::byte> facts;
  std::span<const std::byte> canonical;
  std::span<const std::byte> object;
  std::int64_t bytes_on_record = 0;

  explicit ArtifactRow(const sqlite::Statement& statement);
  // Of an Artifact to be written; the caller keeps what the views point to.
  ArtifactRow(const ArtifactKey& key, std::span<const std::byte> key_bytes, const Artifact& artifact,
              std::span<const std::byte> facts, std::int64_t accessed);

  // The checksum fits, and what it leaves out is possible. Then: its key is that of its content, too.
  bool is_sound() const;
  bool is_genuine() const;
  std::int64_t bytes() const { return static_cast<std::int64_t>(canonical.size() + object.size()); }
  Artifact artifact() const;
  // Adds the row to the file; false if its key is there already.
  bool insert_into(sqlite::Connection& connection) const;

 private:
  std::uint64_t content_checksum() const;
};

std::vector<std::byte> key_bytes(std::string_view hex);
std::string key_hex(std::span<const std::byte> bytes);

std::vector<std::byte> encode_facts(const ArtifactFacts& facts);
// Nothing if another version of Kiln wrote them in another form.
std::optional<ArtifactFacts> decode_facts(std::span<const std::byte> bytes);

}  // namespace kiln::jit
