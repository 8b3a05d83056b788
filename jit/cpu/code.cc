#include "jit/cpu/code.h"

#include <algorithm>

#include <llvm/IR/MDBuilder.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"

namespace kiln::jit::cpu {

namespace {

// Whether `choice` is the one of two values, `value` among them, that comes first in this order.
bool is_among(llvm::Value* value, llvm::Value* choice, llvm::CmpInst::Predicate order) {
  const auto* select = llvm::dyn_cast<llvm::SelectInst>(choice);
  const auto* test = select == nullptr ? nullptr : llvm::dyn_cast<llvm::ICmpInst>(select->getCondition());
  return test != nullptr && test->getPredicate() == order && test->getOperand(0) == select->getTrueValue() &&
         test->getOperand(1) == select->getFalseValue() &&
         (select->getTrueValue() == value || select->getFalseValue() == value);
}

}  // namespace

Code::Code(llvm::Function* function)
    : function_(function),
      builder_(function->getContext(), llvm::InstSimplifyFolder(function->getParent()->getDataLayout())) {
  open_level(new_block("entry"));
}

llvm::BasicBlock* Code::new_block(const char* label) {
  return llvm::BasicBlock::Create(function_->getContext(), label, function_);
}

void Code::open_level(llvm::BasicBlock* block) {
  levels_.push_back({block, next_serial_++});
  current_ = static_cast<int>(levels_.size()) - 1;
  level_of_block_[block] = {current_, levels_.back().serial};
  builder_.SetInsertPoint(block);
}

void Code::continue_in(llvm::BasicBlock* block) {
  Level& level = levels_[static_cast<std::size_t>(current_)];
  level.block = block;
  level_of_block_[block] = {current_, level.serial};
  move_to(current_);
}

void Code::move_to(int level) {
  current_ = level;
  llvm::BasicBlock* block = levels_[static_cast<std::size_t>(level)].block;
  if (llvm::Instruction* terminator = block->getTerminator()) {
    builder_.SetInsertPoint(terminator);
  } else {
    builder_.SetInsertPoint(block);
  }
}

int Code::level_of(llvm::Value* value) const {
  const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  return instruction == nullptr ? 0 : level_of_block_.lookup(instruction->getParent()).first;
}

bool Code::is_visible(llvm::Value* value) const {
  const auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (instruction == nullptr) return true;
  const auto [level, serial] = level_of_block_.lookup(instruction->getParent());
  return level <= current_ && levels_[static_cast<std::size_t>(level)].serial == serial;
}

Code::Hoist::Hoist(Code& code, llvm::ArrayRef<llvm::Value*> operands, int floor)
    : code_(code), previous_(code.current_) {
  int level = std::min(floor, previous_);
  for (llvm::Value* operand : operands) level = std::max(level, code.level_of(operand));
  require(level <= previous_, "a value of a closed level is used");
  if (level != previous_) code_.move_to(level);
}

Code::Hoist::~Hoist() {
  if (code_.current_ != previous_) code_.move_to(previous_);
}

llvm::Value* Code::arithmetic(Arithmetic kind, llvm::Value* a, llvm::Value* b) {
  if (kind == Arithmetic::Min || kind == Arithmetic::Max) {
    const Range first = range_of(a), second = range_of(b);
    if (a == b || first.high <= second.low) return kind == Arithmetic::Min ? a : b;
    if (second.high <= first.low) return kind == Arithmetic::Min ? b : a;
    const auto order = kind == Arithmetic::Min ? llvm::CmpInst::ICMP_SLT : llvm::CmpInst::ICMP_SGT;
    if (is_among(a, b, order)) return b;
    if (is_among(b, a, order)) return a;
  }
  if (llvm::isa<llvm::Constant>(a) && kind != Arithmetic::Sub) std::swap(a, b);
  if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(b)) {
    // One form for x + c, so that equal indices are equal values.
    if (kind == Arithmetic::Sub) return add(a, index(-number->getSExtValue()));
    auto* sum = llvm::dyn_cast<llvm::BinaryOperator>(a);
    if (kind == Arithmetic::Add && sum != nullptr && sum->getOpcode() == llvm::Instruction::Add) {
      if (const auto* inner = llvm::dyn_cast<llvm::ConstantInt>(sum->getOperand(1))) {
        return add(sum->getOperand(0), index(inner->getSExtValue() + number->getSExtValue()));
      }
    }
  }
  llvm::Value*& known = known_arithmetic_[{kind, a, b}];
  if (known != nullptr && is_visible(known)) return known;
  const Hoist hoist(*this, {a, b});
  switch (kind) {
    case Arithmetic::Add:
      known = builder_.CreateAdd(a, b, "", false, true);
      break;
    case Arithmetic::Sub:
      known = builder_.CreateSub(a, b, "", false, true);
      break;
    case Arithmetic::Mul:
      known = builder_.CreateMul(a, b, "", false, true);
      break;
    case Arithmetic::Min:
      known = builder_.CreateSelect(builder_.CreateICmpSLT(a, b), a, b);
      break;
    case Arithmetic::Max:
      known = builder_.CreateSelect(builder_.CreateICmpSGT(a, b), a, b);
      break;
  }
  return known;
}

llvm::Value* Code::add(llvm::Value* a, llvm::Value* b) { return arithmetic(Arithmetic::Add, a, b); }
llvm::Value* Code::sub(llvm::Value* a, llvm::Value* b) { return arithmetic(Arithmetic::Sub, a, b); }
llvm::Value* Code::mul(llvm::Value* a, llvm::Value* b) { return arithmetic(Arithmetic::Mul, a, b); }
llvm::Value* Code::min(llvm::Value* a, llvm::Value* b) { return arithmetic(Arithmetic::Min, a, b); }
llvm::Value* Code::max(llvm::Value* a, llvm::Value* b) { return arithmetic(Arithmetic::Max, a, b); }
llvm::Value* Code::floor_divide(llvm::Value* a, std::int64_t divisor) {
  if (divisor == 1) return a;
  const Range range = range_of(a);
  if (kiln::floor_divide(range.low, divisor) == kiln::floor_divide(range.high, divisor))
    return index(kiln::floor_divide(range.low, divisor));
  const Hoist hoist(*this, {a});
  if ((divisor & (divisor - 1)) == 0) {
    return builder_.CreateAShr(a, index(__builtin_ctzll(static_cast<std::uint64_t>(divisor))));
  }
  if (range.low >= 0) return builder_.CreateSDiv(a, index(divisor));
  // Truncating division rounds negative numbers up; moving them down by divisor - 1 first rounds them down.
  llvm::Value* negative = builder_.CreateICmpSLT(a, index(0));
  llvm::Value* moved = builder_.CreateSelect(negative, builder_.CreateSub(a, index(divisor - 1)), a);
  return builder_.CreateSDiv(moved, index(divisor));
}
llvm::Value* Code::select(llvm::Value* condition, llvm::Value* a, llvm::Value* b) {
  const Hoist hoist(*this, {condition, a, b});
  return builder_.CreateSelect(condition, a, b);
}
llvm::Value* Code::less(llvm::Value* a, llvm::Value* b) {
  if (is_below(a, b)) return builder_.getTrue();
  if (range_of(a).low >= range_of(b).high) return builder_.getFalse();
  const Hoist hoist(*this, {a, b});
  return builder_.CreateICmpSLT(a, b);
}
llvm::Value* Code::both(llvm::Value* a, llvm::Value* b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  const Hoist hoist(*this, {a, b});
  return builder_.CreateAnd(a, b);
}
bool Code::is_constant(llvm::Value* value, std::int64_t expected) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant != nullptr && constant->getSExtValue() == expected;
}

Values Code::loop(llvm::Value* low, llvm::Value* high, llvm::Value* step, const Values& initial,
                  const LoopBody& body, const LoopStop& stop) {
  llvm::Value* guarded = less(low, high);
  const auto* decided = llvm::dyn_cast<llvm::ConstantInt>(guarded);
  if (decided != nullptr && decided->isZero()) return initial;
  const bool runs = decided != nullptr;
  if (runs && range_of(high).high - range_of(low).low <= range_of(step).low) return body(low, initial);
  // Guarded and bottom-tested: the entry block runs once if there is an iteration, and is a level of its own,
  // to which only what is safe in every iteration moves.
  llvm::BasicBlock* entry = new_block("loop.entry");
  llvm::BasicBlock* inside = new_block("loop");
  llvm::BasicBlock* after = new_block("loop.end");
  if (runs) {
    builder_.CreateBr(entry);
  } else {
    builder_.CreateCondBr(guarded, entry, after);
  }
  open_level(entry);
  builder_.CreateBr(inside);
  open_level(inside);
  // The folder must not take a phi for the one value that it has so far.
  std::vector<llvm::PHINode*> phis;
  const auto phi = [&](llvm::Value* first) {
    auto* unknown = new llvm::FreezeInst(llvm::PoisonValue::get(first->getType()), "",
                                         entry->getTerminator()->getIterator());
    phis.push_back(builder_.CreatePHI(first->getType(), 2));
    phis.back()->addIncoming(first, entry);
    phis.back()->addIncoming(unknown, entry);
    return phis.back();
  };
  llvm::PHINode* i = phi(low);
  Values carried;
  for (llvm::Value* value : initial) carried.push_back(phi(value));
  const Values next_carried = body(i, carried);
  llvm::Value* next = builder_.CreateAdd(i, step, "next", false, true);
  llvm::Value* again = builder_.CreateICmpSLT(next, high);
  if (stop) again = builder_.CreateAnd(again, builder_.CreateNot(stop(next, next_carried)));
  llvm::BasicBlock* latch = builder_.GetInsertBlock();
  Values last{next};
  last.insert(last.end(), next_carried.begin(), next_carried.end());
  for (std::size_t k = 0; k < phis.size(); ++k) {
    auto* unknown = llvm::cast<llvm::Instruction>(phis[k]->getIncomingValue(1));
    phis[k]->setIncomingValue(1, last[k]);
    phis[k]->setIncomingBlock(1, latch);
    unknown->eraseFromParent();
  }
  builder_.CreateCondBr(again, inside, after);
  levels_.pop_back();
  levels_.pop_back();
  current_ = static_cast<int>(levels_.size()) - 1;
  // The block of the guard, which code hoisted to this level may have split meanwhile.
  llvm::BasicBlock* guard = levels_.back().block;
  continue_in(after);
  Values results;
  for (std::size_t k = 0; k < initial.size(); ++k) {
    llvm::PHINode* result = builder_.CreatePHI(initial[k]->getType(), 2);
    if (!runs) result->addIncoming(initial[k], guard);
    result->addIncoming(next_carried[k], latch);
    results.push_back(result);
  }
  return results;
}

void Code::loop(llvm::Value* low, llvm::Value* high, llvm::Value* step,
                const std::function<void(llvm::Value* i)>& body) {
  loop(low, high, step, {}, [&](llvm::Value* i, const Values&) -> Values {
    body(i);
    return {};
  });
}

Values Code::branch(llvm::Value* condition, const std::function<Values()>& then,
                    const std::function<Values()>& otherwise) {
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    return constant->isZero() ? otherwise() : then();
  }
  llvm::BasicBlock* taken = new_block("then");
  llvm::BasicBlock* other = new_block("else");
  llvm::BasicBlock* after = new_block("endif");
  builder_.CreateCondBr(condition, taken, other);
  const auto run = [&](llvm::BasicBlock* block, const std::function<Values()>& body) {
    open_level(block);
    Values values = body();
    llvm::BasicBlock* last = builder_.GetInsertBlock();
    builder_.CreateBr(after);
    levels_.pop_back();
    move_to(static_cast<int>(levels_.size()) - 1);
    return std::pair(std::move(values), last);
  };
  const auto [first, first_block] = run(taken, then);
  const auto [second, second_block] = run(other, otherwise);
  continue_in(after);
  Values merged;
  for (std::size_t k = 0; k < first.size(); ++k) {
    llvm::PHINode* merge = builder_.CreatePHI(first[k]->getType(), 2);
    merge->addIncoming(first[k], first_block);
    merge->addIncoming(second[k], second_block);
    merged.push_back(merge);
  }
  return merged;
}

void Code::unlikely(llvm::Value* condition, const std::function<void()>& then) {
  if (const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(condition);
      constant != nullptr && constant->isZero()) {
    return;
  }
  llvm::BasicBlock* block = builder_.GetInsertBlock();
  llvm::BasicBlock* taken = new_block("unlikely");
  llvm::BasicBlock* after = new_block("continue");
  // At an outer level the block is already complete: what follows the branch moves on with its terminator.
  if (llvm::Instruction* terminator = block->getTerminator()) {
    block->replaceSuccessorsPhiUsesWith(block, after);
    terminator->removeFromParent();
    terminator->insertInto(after, after->end());
  }
  builder_.SetInsertPoint(block);
  builder_.CreateCondBr(condition, taken, after, llvm::MDBuilder(context()).createBranchWeights(1, 1 << 20));
  const int level = current_;
  level_of_block_[taken] = level_of_block_.lookup(block);
  builder_.SetInsertPoint(taken);
  then();
  builder_.CreateBr(after);
  current_ = level;
  continue_in(after);
}

llvm::Value* Code::stack(std::int64_t bytes) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  const llvm::IRBuilderBase::InsertPointGuard guard(builder_);
  builder_.SetInsertPoint(&entry, entry.begin());
  auto* memory =
      builder_.CreateAlloca(llvm::ArrayType::get(builder_.getInt8Ty(), static_cast<std::uint64_t>(bytes)));
  memory->setAlignment(llvm::Align(64));
  return memory;
}

}  // namespace kiln::jit::cpu
