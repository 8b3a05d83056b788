#include "jit/cache/artifact_row.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ir/base/byte_writer.h"

namespace kiln::jit {
namespace {

constexpr std::size_t kFactsBytes = 20;
constexpr std::int64_t kEndOfTime = 253'402'300'800'000'000;  // the year 10000, in microseconds since 1970

std::uint64_t read_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

}  // namespace

ArtifactRow::ArtifactRow(const sqlite::Statement& statement)
    : key(statement.blob(0)),
      accessed(statement.integer(1)),
      checksum(static_cast<std::uint64_t>(statement.integer(2))),
      symbol(statement.text(3)),
      facts(statement.blob(4)),
      canonical(statement.blob(5)),
      object(statement.blob(6)),
      bytes_on_record(statement.integer(7)) {}

ArtifactRow::ArtifactRow(const ArtifactKey& artifact_key, std::span<const std::byte> bytes_of_key,
                         const Artifact& artifact, std::span<const std::byte> encoded_facts,
                         std::int64_t time)
    : key(bytes_of_key),
      accessed(time),
      symbol(artifact.symbol),
      facts(encoded_facts),
      canonical(artifact_key.canonical),
      object(artifact.object),
      bytes_on_record(bytes()) {
  checksum = content_checksum();
}

std::uint64_t ArtifactRow::content_checksum() const {
  ByteWriter writer;
  writer.bytes(key);
  writer.text(symbol);
  writer.bytes(facts);
  writer.u64(digest(canonical));
  writer.u64(digest(object));
  return digest(writer.view());
}

bool ArtifactRow::is_sound() const {
  return accessed >= 0 && accessed < kEndOfTime && bytes_on_record == bytes() &&
         checksum == content_checksum();
}

bool ArtifactRow::is_genuine() const {
  return is_sound() && key_of({canonical.begin(), canonical.end()}).hex == key_hex(key);
}

Artifact ArtifactRow::artifact() const {
  return {symbol, {object.begin(), object.end()}, decode_facts(facts).value_or(ArtifactFacts{})};
}

bool ArtifactRow::insert_into(sqlite::Connection& connection) const {
  const std::optional<KeySections> sections = sections_of(canonical);
  sqlite::Statement statement(
      connection,
      "INSERT OR IGNORE INTO artifacts (key, kernel, accessed, bytes, checksum, symbol, facts, "
      "canonical, object) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  statement.bind(0, key)
      .bind(1, static_cast<std::int64_t>(sections ? digest(sections->kernel) : 0))
      .bind(2, accessed)
      .bind(3, bytes())
      .bind(4, static_cast<std::int64_t>(checksum))
      .bind(5, symbol)
      .bind(6, facts)
      .bind(7, canonical)
      .bind(8, object);
  statement.run();
  return connection.changes() > 0;
}

std::vector<std::byte> key_bytes(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(hex_digit(hex[i]) << 4 | hex_digit(hex[i + 1])));
  }
  return bytes;
}

std::string key_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

std::vector<std::byte> encode_facts(const ArtifactFacts& facts) {
  const auto& [compile_ms, code_bytes, spills] = facts;
  ByteWriter writer;
  writer.f64(compile_ms);
  writer.i64(code_bytes);
  writer.u32(static_cast<std::uint32_t>(spills));
  return writer.take();
}

std::optional<ArtifactFacts> decode_facts(std::span<const std::byte> bytes) {
  if (bytes.size() != kFactsBytes) return std::nullopt;
  return ArtifactFacts{
      std::bit_cast<double>(read_little_endian(bytes.subspan(0, 8))),
      static_cast<std::int64_t>(read_little_endian(bytes.subspan(8, 8))),
      static_cast<int>(static_cast<std::uint32_t>(read_little_endian(bytes.subspan(16, 4))))};
}

}  // namespace kiln::jit
