// The binary interface of compiled CPU Kernels. Bump kKernelAbiVersion with any change.
//
// Each Artifact defines three C functions, named by the Kernel's symbol and a suffix:
//   SYMBOL          void(const KernelCall*)                        runs a box of program instances
//   SYMBOL_grid     void(const uint64_t* arguments, int64_t* extents)   extents of the grid
//   SYMBOL_scratch  int64_t(const uint64_t* arguments)             bytes of scratch that one call needs
//
// `arguments` is the packed list of parameters, 8 bytes a word: a memory view is its base address (of element
// 0), then one word per axis of extents, then one word per axis of strides in elements, static ones too; a
// scalar is one word, its bits zero-extended. MXCSR is set by the caller and kept.
#pragma once

#include <cstdint>

namespace kiln::jit {

constexpr int kKernelAbiVersion = 1;
constexpr int kMaxGridRank = 6;

enum class StatusCode : std::int32_t {
  Ok = 0,
  IndexOutOfRange = 1,
  DivisionByZero = 2,
  LocalTooLarge = 3,
};

// Written by the first program instance that fails; other instances may go on. Zeroed by the caller.
struct KernelStatus {
  std::int32_t code = 0;
  std::int32_t reserved = 0;
  std::int64_t program[kMaxGridRank] = {};  // coordinate of the failing instance
  std::int64_t detail = 0;                  // the offending index
};

struct KernelCall {
  const std::uint64_t* arguments;
  const std::int64_t* low;  // box of program ids [low, high), one per grid dimension
  const std::int64_t* high;
  void* scratch;  // 64-byte aligned, SYMBOL_scratch bytes, private to the calling thread
  KernelStatus* status;
};

using KernelFunction = void (*)(const KernelCall*);
using GridFunction = void (*)(const std::uint64_t*, std::int64_t*);
using ScratchFunction = std::int64_t (*)(const std::uint64_t*);

}  // namespace kiln::jit
