#include "jit/llvm/shared_functions.h"

#include <map>
#include <mutex>
#include <utility>

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/MemoryBufferRef.h>
#include <llvm/Support/raw_ostream.h>

#include "ir/base/errors.h"

namespace kiln::jit {

const std::optional<SharedCode>& shared_code(const std::string& key,
                                             const std::function<std::optional<SharedCode>()>& make) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<SharedCode>> codes;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = codes.find(key); found != codes.end()) return found->second;
  }
  // Two threads may make the same at once; the first one's stays.
  std::optional<SharedCode> made = make();
  const std::lock_guard lock(mutex);
  return codes.emplace(key, std::move(made)).first->second;
}

std::string content_of(const llvm::Function& function) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  function.print(stream);
  text += function.getAttributes().getAsString(llvm::AttributeList::FunctionIndex);
  return text;
}

void move_function(llvm::Function& function, llvm::Module& target) {
  function.removeFromParent();
  target.getFunctionList().push_back(&function);
  for (llvm::Instruction& instruction : llvm::instructions(function)) {
    auto* const call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call == nullptr) continue;
    llvm::Function* const callee = call->getCalledFunction();
    require(callee != nullptr && callee->isIntrinsic(), "a shared function calls what is no intrinsic");
    call->setCalledFunction(
        target.getOrInsertFunction(callee->getName(), callee->getFunctionType(), callee->getAttributes()));
  }
}

std::optional<SharedCode> code_of(llvm::StringRef object, int spills) {
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(object, "kiln"));
  if (!file) {
    llvm::consumeError(file.takeError());
    return std::nullopt;
  }
  SharedCode code;
  code.spills = spills;
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    if (!section.relocations().empty()) return std::nullopt;
    if (section.getSize() == 0) continue;
    if (section.isData() || section.isBSS()) return std::nullopt;
    if (!section.isText()) continue;
    auto contents = section.getContents();
    if (!contents || !code.bytes.empty()) {
      if (!contents) llvm::consumeError(contents.takeError());
      return std::nullopt;
    }
    const auto* const begin = reinterpret_cast<const std::byte*>(contents->data());
    code.bytes.assign(begin, begin + contents->size());
    code.alignment = section.getAlignment().value();
  }
  if (code.bytes.empty()) return std::nullopt;
  return code;
}

void replace_body(llvm::Function& function, const SharedCode& code) {
  const llvm::StringRef bytes(reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size());
  const auto linkage = function.getLinkage();
  function.deleteBody();
  function.setLinkage(linkage);
  function.setAlignment(llvm::Align(code.alignment));
  function.setPrologueData(
      llvm::ConstantDataArray::getString(function.getContext(), bytes, /*AddNull=*/false));
  llvm::ReturnInst::Create(function.getContext(),
                           llvm::BasicBlock::Create(function.getContext(), "", &function));
}

}  // namespace kiln::jit
