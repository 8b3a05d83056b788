// The LLVM function under construction: loops, branches and the place where a computation belongs.
//
// Open loops and branches form levels. A value is emitted at the outermost level at which its operands exist,
// so that what does not change in a loop is computed before it, without an optimiser.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/InstSimplifyFolder.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace kiln::jit::cpu {

using Builder = llvm::IRBuilder<llvm::InstSimplifyFolder>;
using Values = std::vector<llvm::Value*>;

class Code {
 public:
  // Opens the entry block of `function`, level 0.
  explicit Code(llvm::Function* function);
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  Builder& builder() { return builder_; }
  llvm::LLVMContext& context() { return builder_.getContext(); }
  llvm::Function* function() { return function_; }

  // The level where code is emitted now, and the innermost one that is open.
  int level() const { return current_; }
  // The level at which `value` was computed. Constants and arguments: 0.
  int level_of(llvm::Value* value) const;
  // Whether `value` may be used here: it was computed at a level that is still open.
  bool is_visible(llvm::Value* value) const;

  // Emits at the outermost level >= `floor` that sees all `operands`, for the lifetime of the object.
  class Hoist {
   public:
    Hoist(Code& code, llvm::ArrayRef<llvm::Value*> operands, int floor = 0);
    ~Hoist();
    Hoist(const Hoist&) = delete;
    Hoist& operator=(const Hoist&) = delete;

   private:
    Code& code_;
    int previous_;
  };

  // i64 arithmetic, hoisted and folded.
  llvm::Value* index(std::int64_t value) { return builder_.getInt64(static_cast<std::uint64_t>(value)); }
  llvm::Value* add(llvm::Value* a, llvm::Value* b);
  llvm::Value* sub(llvm::Value* a, llvm::Value* b);
  llvm::Value* mul(llvm::Value* a, llvm::Value* b);
  llvm::Value* min(llvm::Value* a, llvm::Value* b);
  llvm::Value* max(llvm::Value* a, llvm::Value* b);
  llvm::Value* floor_divide(llvm::Value* a, std::int64_t divisor);  // divisor > 0
  llvm::Value* select(llvm::Value* condition, llvm::Value* a, llvm::Value* b);
  llvm::Value* less(llvm::Value* a, llvm::Value* b);  // signed; gives i1
  llvm::Value* both(llvm::Value* a, llvm::Value* b);  // i1; null stands for true
  static bool is_constant(llvm::Value* value, std::int64_t expected);

  // ranges.cc: bounds of i64 values, for tests that need not be made. What is set holds wherever the value is
  // used; other bounds follow from those of the operands.
  struct Range {
    std::int64_t low, high;  // inclusive
  };
  Range range_of(llvm::Value* value) const { return range_of(value, kRangeDepth); }
  void set_range(llvm::Value* value, Range range) { ranges_[value] = range; }
  // `value` * `factor` < `bound`.
  void set_below(llvm::Value* value, llvm::Value* bound, std::int64_t factor = 1) {
    bounds_[value] = {bound, factor};
  }
  bool is_below(llvm::Value* value, llvm::Value* bound) const;

  // for (i = low; i < high; i += step) carried = body(i, carried); gives the final carried values. Signed
  // i64, step > 0. A loop that runs exactly once becomes its body. If `stop` is given it is called after the
  // body with the next i and what the body gave, and ends the loop when it returns true.
  using LoopBody = std::function<Values(llvm::Value* i, const Values& carried)>;
  using LoopStop = std::function<llvm::Value*(llvm::Value* next, const Values& carried)>;
  Values loop(llvm::Value* low, llvm::Value* high, llvm::Value* step, const Values& initial,
              const LoopBody& body, const LoopStop& stop = {});
  void loop(llvm::Value* low, llvm::Value* high, llvm::Value* step,
            const std::function<void(llvm::Value* i)>& body);

  // Both give values of the same types, merged behind the branch.
  Values branch(llvm::Value* condition, const std::function<Values()>& then,
                const std::function<Values()>& otherwise);
  // Runs `then` rarely, at the current level.
  void unlikely(llvm::Value* condition, const std::function<void()>& then);

  // Stack memory of the whole function, `bytes` at a 64-byte boundary.
  llvm::Value* stack(std::int64_t bytes);

 private:
  struct Level {
    llvm::BasicBlock* block;  // where emission goes on: before its terminator, or at its end
    std::uint64_t serial;     // tells apart levels of the same depth
  };
  // Index arithmetic that is still visible is not repeated.
  enum class Arithmetic : std::uint8_t { Add, Sub, Mul, Min, Max };
  llvm::Value* arithmetic(Arithmetic kind, llvm::Value* a, llvm::Value* b);
  static constexpr int kRangeDepth = 16;  // operands of operands that are looked at
  Range range_of(llvm::Value* value, int depth) const;
  bool has_bound(llvm::Value* value, llvm::Value* bound) const;
  llvm::BasicBlock* new_block(const char* label);
  void open_level(llvm::BasicBlock* block);
  void continue_in(llvm::BasicBlock* block);  // at the current level
  void move_to(int level);

  llvm::Function* function_;
  Builder builder_;
  std::vector<Level> levels_;
  int current_ = 0;
  std::uint64_t next_serial_ = 0;
  llvm::DenseMap<const llvm::BasicBlock*, std::pair<int, std::uint64_t>> level_of_block_;
  std::map<std::tuple<Arithmetic, llvm::Value*, llvm::Value*>, llvm::Value*> known_arithmetic_;
  llvm::DenseMap<llvm::Value*, Range> ranges_;
  llvm::DenseMap<llvm::Value*, std::pair<llvm::Value*, std::int64_t>> bounds_;
};

}  // namespace kiln::jit::cpu
