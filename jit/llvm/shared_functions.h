// Machine code of functions that many Kernels have in common, the micro-kernels. Each is generated once in a
// process; the Kernels that call it get a copy of its bytes, so that every object stands alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <llvm/IR/Module.h>

namespace kiln::jit {

// Marks a function that refers to nothing but its arguments and intrinsics and needs no constants in memory,
// so that its code can be copied.
constexpr const char* kSharedFunction = "kiln-shared";

struct SharedCode {
  std::vector<std::byte> bytes;
  std::uint64_t alignment = 16;
  int spills = 0;
};

// The code of the function that `key` names, a Target and content_of(); made at the first use. Nothing if it
// cannot be copied. Thread safe; kept for the process, as there are only some dozens of shapes.
const std::optional<SharedCode>& shared_code(const std::string& key,
                                             const std::function<std::optional<SharedCode>()>& make);

// What tells `function` from others: its name, attributes and instructions.
std::string content_of(const llvm::Function& function);

// Moves `function` into `target`, an empty Module of the same context.
void move_function(llvm::Function& function, llvm::Module& target);

// The code of the one function of an object; nothing if it needs relocations or data.
std::optional<SharedCode> code_of(llvm::StringRef object, int spills);

// Makes `code` what runs when `function`, which returns nothing, is called: its prologue, which never reaches
// the empty body behind it.
void replace_body(llvm::Function& function, const SharedCode& code);

}  // namespace kiln::jit
