// Compiled bytes of one Kernel, and facts about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kiln::jit {

struct ArtifactFacts {
  double compile_ms = 0;  // lowering, optimising and emitting
  std::int64_t code_bytes = 0;
  int spills = 0;  // register spills in the whole function, as the code generator counts
};

struct Artifact {
  std::string symbol;             // the C name in the object, derived from the key: "kiln_" + 32 hex digits
  std::vector<std::byte> object;  // a relocatable object file
  ArtifactFacts facts;
};

}  // namespace kiln::jit
