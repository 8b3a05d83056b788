// What a machine can do, as far as generated code depends on it. Plain data; no host query in here.
#pragma once

#include <cstdint>
#include <string>

namespace kiln {

enum class Isa : std::uint8_t { X86_64_V3, X86_64_V4 };  // AVX2+FMA; AVX-512 F, BW, CD, DQ, VL

struct Target {
  Isa isa = Isa::X86_64_V3;
  // Beyond the ISA level; a Kernel's Artifact key holds only what its code uses.
  bool avx512_bf16 = false;
  bool avx512_vnni = false;
  bool amx_bf16 = false;
  bool amx_int8 = false;
  std::int64_t l1_bytes = 32 << 10;
  std::int64_t l2_bytes = 1 << 20;

  int vector_bytes() const { return isa == Isa::X86_64_V4 ? 64 : 32; }
  int vector_registers() const { return isa == Isa::X86_64_V4 ? 32 : 16; }
  bool operator==(const Target&) const = default;
};

// "x86-64-v3" or "x86-64-v4".
const char* name(Isa isa);

}  // namespace kiln
