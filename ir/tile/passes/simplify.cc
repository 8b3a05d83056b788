#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/byte_writer.h"
#include "ir/base/checked_math.h"
#include "ir/tile/interpreter.h"
#include "ir/tile/op_rule.h"
#include "ir/tile/passes/passes.h"
#include "ir/tile/passes/rewrite.h"

namespace kiln::tile {
namespace {

// What an Op may do beside giving its results.
enum class Effect : std::uint8_t {
  None,     // the same operands give the same results, anywhere
  Reads,    // memory: may be dropped, not moved or merged
  Fails,    // may end the kernel with an error: may be merged with an equal Op before it, not dropped
  Changes,  // memory or the outside world
};

class Simplifier {
 public:
  explicit Simplifier(Kernel& kernel) : kernel_(kernel), definition_(kernel.values.size(), OpId::none()) {
    for (std::uint32_t i = 0; i < kernel.ops.size(); ++i) {
      for (const ValueId result : kernel.ops[i].results) definition_[result.index] = OpId{i};
    }
  }

  void run() {
    forward(kernel_.grid);
    available_.clear();
    forward(kernel_.body);
    uses_.assign(kernel_.values.size(), 0);
    for (const Op& op : kernel_.ops) {
      for (const ValueId operand : op.operands) ++uses_[operand.index];
    }
    // Ops that forward() dropped are in no Block, and so was the use of their operands.
    for (const OpId op : dropped_) release(op);
    remove_dead(kernel_.grid);
    remove_dead(kernel_.body);
    compact(kernel_);
  }

 private:
  const Op* definition(ValueId id) const {
    const OpId op = definition_[id.index];
    return op ? &kernel_.op(op) : nullptr;
  }
  // The literal of a scalar or of every element of a tile.
  std::optional<Literal> literal(ValueId id) const {
    const Op* op = definition(id);
    return op != nullptr && op->code == Opcode::Constant ? op->attributes.literal : std::nullopt;
  }

  Effect effect(const Op& op) const;
  bool reads_through_gather(ValueId view) const;

  // Folds and merges, in order, with what enclosing Blocks have made available.
  void forward(BlockId block);
  void forward_ops(const std::vector<OpId>& ops, std::vector<OpId>& kept);
  bool runs_at_most_once(const Op& op) const;
  void inline_block(OpId op, std::vector<OpId>& kept);
  bool fold(Op& op);
  std::optional<ValueId> same_as(const Op& op) const;
  static std::string key(const Kernel& kernel, const Op& op);

  void remove_dead(BlockId block);
  void release(OpId op);

  Kernel& kernel_;
  std::vector<OpId> definition_;
  Substitution replaced_;
  std::vector<std::map<std::string, OpId>> available_;  // by key, one map per open Block
  std::vector<OpId> dropped_;
  std::vector<int> uses_;
};

bool Simplifier::reads_through_gather(ValueId view) const {
  for (const Op* op = definition(view); op != nullptr; op = definition(op->operands[0])) {
    if (op->code == Opcode::GatherView) return true;
    if (op->code == Opcode::ConcatView && reads_through_gather(op->operands[1])) return true;
    if (op->code == Opcode::Local) return false;
  }
  return false;
}

Effect Simplifier::effect(const Op& op) const {
  switch (op.code) {
    case Opcode::Constant:
    case Opcode::Iota:
    case Opcode::Reshape:
    case Opcode::Transpose:
    case Opcode::Broadcast:
    case Opcode::Slice:
    case Opcode::Concat:
    case Opcode::Cast:
    case Opcode::Bitcast:
    case Opcode::Reduce:
    case Opcode::Scan:
    case Opcode::Dot:
    case Opcode::Mask:
    case Opcode::Dim:
    case Opcode::TransposeView:
    case Opcode::BroadcastView:
    case Opcode::MergeView:
    case Opcode::SplitView:
    case Opcode::SliceView:
    case Opcode::WindowView:
    case Opcode::PadView:
    case Opcode::GatherView:
    case Opcode::ConcatView:
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
    case Opcode::Assume:
      return Effect::None;
    case Opcode::Elementwise: {
      const Function function = op.attributes.function;
      const bool divides =
          function == Function::Div || function == Function::Rem || function == Function::FloorMod;
      if (!divides || !is_integer(kernel_.type(op.operands[0]).element)) return Effect::None;
      const std::optional<Literal> divisor = literal(op.operands[1]);
      return divisor && divisor->bits != 0 ? Effect::None : Effect::Fails;
    }
    case Opcode::Load:
      return reads_through_gather(op.operands[0]) ? Effect::Changes : Effect::Reads;
    case Opcode::Local:  // two of the same are two memories
      return Effect::Changes;
    case Opcode::For:
    case Opcode::If:
    case Opcode::Contract: {
      // A loop whose step may be below 1 fails.
      if (op.code == Opcode::For) {
        const std::optional<Literal> step = literal(op.operands[2]);
        if (!step || step->as_integer() < 1) return Effect::Changes;
      }
      for (const BlockId block : op.blocks) {
        for (const OpId inner : kernel_.block(block).ops) {
          if (kernel_.op(inner).code == Opcode::Yield) continue;
          const Effect found = effect(kernel_.op(inner));
          if (found == Effect::Changes || found == Effect::Fails) return Effect::Changes;
        }
      }
      return Effect::Reads;
    }
    case Opcode::Store:
    case Opcode::AtomicAdd:
    case Opcode::Yield:
    case Opcode::Assert:
    case Opcode::Print:
      return Effect::Changes;
  }
  return Effect::Changes;
}

// Turns an Op whose value is known into a Constant.
bool Simplifier::fold(Op& op) {
  if (op.results.size() != 1) return false;
  const Type& type = kernel_.type(op.results[0]);
  if (!type.is_view() && !computes(type.element)) return false;
  std::optional<Literal> value;
  switch (op.code) {
    case Opcode::Dim: {
      const std::int64_t extent =
          kernel_.type(op.operands[0]).extents[static_cast<std::size_t>(op.attributes.axes[0])];
      if (extent != kDynamic) value = Literal::integer(DType::I64, extent);
      break;
    }
    case Opcode::Reshape:
    case Opcode::Broadcast:
    case Opcode::Transpose:
    case Opcode::Slice:
      value = literal(op.operands[0]);
      break;
    case Opcode::Cast:
      value = literal(op.operands[0]);
      if (value) value = cast(*value, type.element);
      break;
    case Opcode::Bitcast:
      value = literal(op.operands[0]);
      if (value) value->dtype = type.element;
      break;
    case Opcode::Elementwise: {
      if (!is_primitive(op.attributes.function) || effect(op) != Effect::None) return false;
      std::vector<Literal> operands;
      for (const ValueId operand : op.operands) {
        const std::optional<Literal> known = literal(operand);
        if (!known) return false;
        operands.push_back(*known);
      }
      value = evaluate(op.attributes.function, operands);
      break;
    }
    default:
      break;
  }
  if (!value) return false;
  op = Op{Opcode::Constant, {}, op.results, {}, {.literal = value}};
  return true;
}

// An operand that the Op only repeats.
std::optional<ValueId> Simplifier::same_as(const Op& op) const {
  if (op.results.size() != 1) return std::nullopt;
  const Type& type = kernel_.type(op.results[0]);
  const auto repeats = [&](std::size_t i) -> std::optional<ValueId> {
    return kernel_.type(op.operands[i]) == type ? std::optional(op.operands[i]) : std::nullopt;
  };
  const auto is = [&](std::size_t i, std::int64_t number) {
    const std::optional<Literal> known = literal(op.operands[i]);
    return known && known->as_integer() == number;
  };
  switch (op.code) {
    case Opcode::Reshape:
    case Opcode::Broadcast:
      return repeats(0);
    case Opcode::Elementwise:
      if (op.attributes.function == Function::Select && literal(op.operands[0])) {
        return repeats(literal(op.operands[0])->bits != 0 ? 1 : 2);
      }
      if (!is_integer(type.element)) return std::nullopt;
      switch (op.attributes.function) {
        case Function::Add:
          return is(1, 0) ? repeats(0) : is(0, 0) ? repeats(1) : std::nullopt;
        case Function::Sub:
          return is(1, 0) ? repeats(0) : std::nullopt;
        case Function::Mul:
          return is(1, 1) ? repeats(0) : is(0, 1) ? repeats(1) : std::nullopt;
        case Function::Div:
          return is(1, 1) ? repeats(0) : std::nullopt;
        default:
          return std::nullopt;
      }
    default:
      return std::nullopt;
  }
}

std::string Simplifier::key(const Kernel& kernel, const Op& op) {
  ByteWriter out;
  const auto numbers = [&](const std::vector<std::int64_t>& values) {
    out.u64(values.size());
    for (const std::int64_t value : values) out.i64(value);
  };
  const Attributes& attributes = op.attributes;
  out.u8(static_cast<std::uint8_t>(op.code));
  out.u64(op.operands.size());
  for (const ValueId operand : op.operands) out.u32(operand.index);
  numbers(attributes.axes);
  numbers(attributes.sizes);
  numbers(attributes.strides);
  numbers(attributes.dilations);
  out.i64(attributes.count);
  for (const auto field : {static_cast<int>(attributes.pad_mode), static_cast<int>(attributes.exclusive),
                           static_cast<int>(attributes.reverse), static_cast<int>(attributes.function),
                           static_cast<int>(attributes.combiner), attributes.literal ? 1 : 0}) {
    out.u8(static_cast<std::uint8_t>(field));
  }
  if (attributes.literal) {
    out.u8(static_cast<std::uint8_t>(attributes.literal->dtype));
    out.u64(attributes.literal->bits);
  }
  for (const ValueId result : op.results) out.text(to_string(kernel.type(result)));
  const std::vector<std::byte> bytes = out.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void Simplifier::forward(BlockId block) {
  available_.emplace_back();
  std::vector<OpId> kept;
  forward_ops(std::vector<OpId>(kernel_.block(block).ops), kept);
  kernel_.blocks[block.index].ops = std::move(kept);
  available_.pop_back();
}

void Simplifier::forward_ops(const std::vector<OpId>& ops, std::vector<OpId>& kept) {
  for (const OpId id : ops) {
    Op& op = kernel_.ops[id.index];
    for (ValueId& operand : op.operands) operand = replaced_(operand);
    if (const std::optional<ValueId> same = same_as(op)) {
      replaced_.set(op.results[0], *same);
      dropped_.push_back(id);
      continue;
    }
    if (runs_at_most_once(op)) {
      inline_block(id, kept);
      continue;
    }
    fold(op);
    const Effect found = effect(op);
    if (found == Effect::None || found == Effect::Fails) {
      const std::string text = key(kernel_, op);
      const auto known = std::find_if(available_.begin(), available_.end(),
                                      [&](const auto& scope) { return scope.contains(text); });
      if (known != available_.end()) {
        const Op& earlier = kernel_.op(known->at(text));
        for (std::size_t i = 0; i < op.results.size(); ++i) replaced_.set(op.results[i], earlier.results[i]);
        dropped_.push_back(id);
        continue;
      }
      available_.back().emplace(text, id);
    }
    for (const BlockId inner : op.blocks) forward(inner);
    kept.push_back(id);
  }
}

// A branch whose side is known, or a loop that is known to run once or not at all.
bool Simplifier::runs_at_most_once(const Op& op) const {
  if (op.code == Opcode::If) return literal(op.operands[0]).has_value();
  if (op.code != Opcode::For) return false;
  const std::optional<Literal> low = literal(op.operands[0]), high = literal(op.operands[1]);
  const std::optional<Literal> step = literal(op.operands[2]);
  if (!low || !high || !step || step->as_integer() < 1) return false;
  const std::optional<std::int64_t> next = checked_add(low->as_integer(), step->as_integer());
  return !next || *next >= high->as_integer();
}

// Puts the Ops of the Block that runs, if one does, in place of the Op.
void Simplifier::inline_block(OpId id, std::vector<OpId>& kept) {
  Op& op = kernel_.ops[id.index];
  const std::vector<BlockId> blocks = std::exchange(op.blocks, {});
  std::optional<BlockId> runs = blocks[0];
  if (op.code == Opcode::If) {
    runs = blocks[literal(op.operands[0])->bits != 0 ? 0 : 1];
  } else if (literal(op.operands[0])->as_integer() >= literal(op.operands[1])->as_integer()) {
    runs.reset();
  }
  for (const BlockId block : blocks) {
    if (block == runs) continue;
    for (const OpId unreached : kernel_.block(block).ops) dropped_.push_back(unreached);
  }
  dropped_.push_back(id);
  std::vector<ValueId> values(op.operands.begin() + (op.code == Opcode::For ? 3 : 1), op.operands.end());
  if (runs) {
    const Block block = kernel_.block(*runs);
    for (std::size_t i = 0; i < block.arguments.size(); ++i) {
      replaced_.set(block.arguments[i], i == 0 ? op.operands[0] : values[i - 1]);
    }
    const OpId yield = block.ops.back();
    forward_ops({block.ops.begin(), block.ops.end() - 1}, kept);
    values = kernel_.op(yield).operands;
    for (ValueId& value : values) value = replaced_(value);
    dropped_.push_back(yield);
  }
  const std::vector<ValueId>& results = kernel_.op(id).results;
  for (std::size_t i = 0; i < results.size(); ++i) replaced_.set(results[i], values[i]);
}

// The Op is gone, and with it its uses and those of the Blocks in it.
void Simplifier::release(OpId id) {
  for (const ValueId operand : kernel_.op(id).operands) --uses_[operand.index];
  for (const BlockId block : kernel_.op(id).blocks) {
    for (const OpId inner : kernel_.block(block).ops) release(inner);
  }
}

void Simplifier::remove_dead(BlockId block) {
  std::vector<OpId> kept;
  const std::vector<OpId> ops = kernel_.block(block).ops;
  for (auto id = ops.rbegin(); id != ops.rend(); ++id) {
    const Op& op = kernel_.op(*id);
    const bool unused = std::all_of(op.results.begin(), op.results.end(),
                                    [&](ValueId result) { return uses_[result.index] == 0; });
    const Effect found = effect(op);
    if (unused && (found == Effect::None || found == Effect::Reads || op.code == Opcode::Local)) {
      release(*id);
      continue;
    }
    for (const BlockId inner : op.blocks) remove_dead(inner);
    kept.push_back(*id);
  }
  std::reverse(kept.begin(), kept.end());
  kernel_.blocks[block.index].ops = std::move(kept);
}

}  // namespace

void simplify(Kernel& kernel) { Simplifier(kernel).run(); }

}  // namespace kiln::tile
