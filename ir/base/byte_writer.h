// Canonical bytes, for hashing and storing: fixed-width little-endian numbers and length-prefixed spans, so
// that two different sequences of fields never give the same bytes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

class ByteWriter {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  void u32(std::uint32_t value) { little_endian(value, 4); }
  void u64(std::uint64_t value) { little_endian(value, 8); }
  void i64(std::int64_t value) { u64(static_cast<std::uint64_t>(value)); }
  void f64(double value) { u64(std::bit_cast<std::uint64_t>(value)); }
  void boolean(bool value) { u8(value ? 1 : 0); }

  // Eight bytes of length, then the content.
  void bytes(std::span<const std::byte> content) {
    u64(content.size());
    bytes_.insert(bytes_.end(), content.begin(), content.end());
  }
  void text(std::string_view content) { bytes(std::as_bytes(std::span(content))); }

  std::span<const std::byte> view() const { return bytes_; }
  std::vector<std::byte> take() { return std::exchange(bytes_, {}); }

 private:
  void little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace kiln
