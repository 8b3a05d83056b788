// MurmurHash3 (the x86 variant of 32 bits) of each element's bytes.
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "kernels_ref/arguments.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

std::uint32_t scrambled(std::uint32_t block) { return std::rotl(block * 0xcc9e2d51U, 15) * 0x1b873593U; }

std::uint32_t murmur_hash_of(std::string_view bytes, std::uint32_t seed) {
  std::uint32_t hash = seed;
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    std::uint32_t block = 0;
    std::memcpy(&block, bytes.data() + at, 4);
    hash = std::rotl(hash ^ scrambled(block), 13) * 5 + 0xe6546b64U;
  }
  std::uint32_t tail = 0;
  for (std::size_t i = bytes.size(); i-- > at;) tail = tail << 8 | static_cast<std::uint8_t>(bytes[i]);
  if (at < bytes.size()) hash ^= scrambled(tail);
  hash ^= static_cast<std::uint32_t>(bytes.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

}  // namespace

void murmur_hash(Call& call) {
  const Tensor& x = call.input(0);
  const auto seed = static_cast<std::uint32_t>(integer(call.node, "seed"));
  const DType dtype = integer(call.node, "positive") != 0 ? DType::U32 : DType::I32;
  std::uint32_t* y = call.output(0, dtype, x.extents()).as_mutable<std::uint32_t>().data();
  if (x.dtype() == DType::String) {
    for (const std::string& item : x.as<std::string>()) *y++ = murmur_hash_of(item, seed);
    return;
  }
  const auto size = static_cast<std::size_t>(bits(x.dtype()) / 8);
  const auto* data = reinterpret_cast<const char*>(x.data());
  for (std::int64_t i = 0; i < x.elements(); ++i, data += size) *y++ = murmur_hash_of({data, size}, seed);
}

}  // namespace kiln::reference
