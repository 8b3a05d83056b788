// What the machine that this process runs on can do.
#include <fstream>
#include <string>

#include <cpuid.h>

#include "ir/base/errors.h"
#include "jit/compile.h"

namespace kiln::jit {
namespace {

struct CpuidLeaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(unsigned leaf, unsigned subleaf = 0) {
  CpuidLeaf registers;
  __get_cpuid_count(leaf, subleaf, &registers.eax, &registers.ebx, &registers.ecx, &registers.edx);
  return registers;
}

constexpr bool bit(unsigned value, int position) { return (value >> position & 1u) != 0; }

// Register state that the operating system saves (XCR0); an instruction set is usable only with its state.
unsigned enabled_state() {
  if (!bit(cpuid(1).ecx, 27)) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}
constexpr unsigned kAvxState = 0x6;      // SSE, AVX
constexpr unsigned kAvx512State = 0xe6;  // and opmask, the upper halves, registers 16 to 31
constexpr unsigned kAmxState = 0x60000;  // tile configuration and data

// Bytes of the data or unified cache of `level` as sysfs reports it, or `otherwise`.
std::int64_t cache_bytes(int level, std::int64_t otherwise) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int this_level = 0;
    std::string type;
    std::int64_t size = 0;
    char unit = 0;
    std::ifstream(folder + "level") >> this_level;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> size >> unit;
    if (this_level != level || type == "Instruction" || size <= 0) continue;
    return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
  }
  return otherwise;
}

struct Host {
  Target target;
  bool usable = false;  // reaches x86-64-v3
};

Host query() {
  Host host;
  const CpuidLeaf basic = cpuid(1), extended = cpuid(7), more = cpuid(7, 1), amd = cpuid(0x80000001u);
  const unsigned state = enabled_state();
  const bool fma = bit(basic.ecx, 12), movbe = bit(basic.ecx, 22), avx = bit(basic.ecx, 28),
             f16c = bit(basic.ecx, 29);
  const bool bmi1 = bit(extended.ebx, 3), avx2 = bit(extended.ebx, 5), bmi2 = bit(extended.ebx, 8);
  const bool lzcnt = bit(amd.ecx, 5);
  host.usable =
      fma && movbe && avx && f16c && bmi1 && avx2 && bmi2 && lzcnt && (state & kAvxState) == kAvxState;

  const bool f = bit(extended.ebx, 16), dq = bit(extended.ebx, 17), cd = bit(extended.ebx, 28),
             bw = bit(extended.ebx, 30), vl = bit(extended.ebx, 31);
  const bool avx512 = host.usable && f && dq && cd && bw && vl && (state & kAvx512State) == kAvx512State;
  const bool amx = avx512 && bit(extended.edx, 24) && (state & kAmxState) == kAmxState;
  Target& target = host.target;
  target.isa = avx512 ? Isa::X86_64_V4 : Isa::X86_64_V3;
  target.avx512_vnni = avx512 && bit(extended.ecx, 11);
  target.avx512_bf16 = avx512 && bit(more.eax, 5);
  target.amx_bf16 = amx && bit(extended.edx, 22);
  target.amx_int8 = amx && bit(extended.edx, 25);
  target.l1_bytes = cache_bytes(1, target.l1_bytes);
  target.l2_bytes = cache_bytes(2, target.l2_bytes);
  return host;
}

}  // namespace

const Target& host_target() {
  static const Host host = query();
  if (!host.usable) {
    throw_environment(
        ErrorCode::Unsupported,
        "this processor lacks the x86-64-v3 instruction set (AVX2, FMA, BMI2, F16C); generated kernels "
        "need it, use reference kernels instead");
  }
  return host.target;
}

Target target_for_isa(Isa isa) {
  Target target = host_target();
  if (isa > target.isa) {
    throw_caller(ErrorCode::Unsupported, "this processor has {} but not {}; choose the former or native",
                 name(target.isa), name(isa));
  }
  if (isa < Isa::X86_64_V4) {
    target.avx512_bf16 = target.avx512_vnni = target.amx_bf16 = target.amx_int8 = false;
  }
  target.isa = isa;
  return target;
}

}  // namespace kiln::jit
