// Runs a Kernel as compiled code, with the arguments that the interpreter takes.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "ir/tile/interpreter.h"
#include "jit/compile.h"
#include "jit/load/loader.h"

namespace kiln::jit {

// The ISA levels that this machine can run.
inline std::vector<Isa> runnable_isas() {
  std::vector<Isa> isas{Isa::X86_64_V3};
  if (host_target().isa == Isa::X86_64_V4) isas.push_back(Isa::X86_64_V4);
  return isas;
}

// The argument words of the kernel ABI; each view begins at its first byte.
inline std::vector<std::uint64_t> pack(std::span<const tile::Argument> arguments) {
  std::vector<std::uint64_t> words;
  for (const tile::Argument& argument : arguments) {
    if (const auto* literal = std::get_if<tile::Literal>(&argument)) {
      words.push_back(literal->bits);
      continue;
    }
    const auto& view = std::get<tile::ViewArgument>(argument);
    words.push_back(reinterpret_cast<std::uint64_t>(view.bytes.data()));
    for (const std::int64_t extent : view.extents) words.push_back(static_cast<std::uint64_t>(extent));
    for (const std::int64_t stride : view.strides) words.push_back(static_cast<std::uint64_t>(stride));
  }
  return words;
}

// Runs the whole grid of a loaded kernel in one box.
inline KernelStatus run(const LoadedKernel& loaded, std::span<const std::uint64_t> words) {
  std::vector<std::int64_t> low(kMaxGridRank, 0), high(kMaxGridRank, 1);
  loaded.grid(words.data(), high.data());
  const std::int64_t bytes = loaded.scratch(words.data());
  constexpr std::size_t kGuard = 64;
  const std::size_t size = (static_cast<std::size_t>(bytes) + 63) / 64 * 64;
  std::unique_ptr<std::byte, decltype(&std::free)> scratch(
      static_cast<std::byte*>(std::aligned_alloc(64, size + kGuard)), &std::free);
  std::memset(scratch.get(), 0xff, size);
  std::memset(scratch.get() + size, 0x5a, kGuard);
  KernelStatus status;
  const KernelCall call{words.data(), low.data(), high.data(), scratch.get(), &status};
  loaded.run(&call);
  for (std::size_t k = 0; k < kGuard; ++k) {
    if (scratch.get()[size + k] != std::byte{0x5a}) {
      ADD_FAILURE() << "the kernel wrote beyond its " << bytes << " bytes of scratch";
      break;
    }
  }
  return status;
}

// Compiles, loads and runs. A failure to compile fails the test.
inline KernelStatus compile_and_run(const tile::Kernel& kernel, const Target& target,
                                    std::span<const tile::Argument> arguments,
                                    const tile::Schedule& schedule = {}) {
  const auto artifact = compile(kernel, schedule, target, "kernel");
  if (!artifact) {
    ADD_FAILURE() << artifact.error().what();
    return {};
  }
  const auto loaded = load(*artifact);
  if (!loaded) {
    ADD_FAILURE() << loaded.error().what();
    return {};
  }
  std::vector<std::uint64_t> words = pack(arguments);
  std::size_t word = 0;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (const auto* view = std::get_if<tile::ViewArgument>(&arguments[k])) {
      const DType dtype = kernel.type(kernel.parameters[k].value).element;
      words[word] += static_cast<std::uint64_t>(view->offset * ((bits(dtype) + 7) / 8));
      word += 1 + 2 * view->extents.size();
    } else {
      ++word;
    }
  }
  return run(*loaded, words);
}

}  // namespace kiln::jit
