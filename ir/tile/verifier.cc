#include "ir/tile/verifier.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "ir/base/errors.h"

namespace kiln::tile {
namespace {

bool is_word(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && letter(text.front()) && std::all_of(text.begin(), text.end(), inner);
}

// How a contract may change a carried value: partial results of one kind combine in any order.
enum class Accumulation : std::uint8_t { None, Sum, Prod, Min, Max, MinNum, MaxNum, And, Or, Xor };

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel)
      : kernel_(kernel),
        facts_(kernel.values.size()),
        op_seen_(kernel.ops.size()),
        block_seen_(kernel.blocks.size()) {}

  void run();

 private:
  // What is known of a Value once it is defined.
  struct Facts {
    bool defined = false;
    bool visible = false;
    bool known_at_launch = false;  // from parameters, their dims and constants alone
    OpId definition;
    std::vector<ValueId> roots;  // a view: the parameters and locals that it reaches
    int view_depth = 0;
    std::optional<Opcode> repeating;  // a view: the combinator that maps two indices to one element
  };

  struct Place {
    int depth = 0;
    bool in_grid = false;
  };

  std::string text(ValueId id) const;
  Error located(Error error) const;
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw located(Error(ErrorKind::Caller, ErrorCode::InvalidArgument,
                        fmt::format(format, std::forward<Args>(args)...)));
  }

  Facts& facts(ValueId id) { return facts_[id.index]; }
  void define(ValueId id, OpId definition);
  void check_parameter(const Parameter& parameter);
  void check_equal_extents() const;
  // Checks the Block and gives the operands of its Yield. Its values are visible only inside.
  const std::vector<ValueId>& check_block(BlockId id, const std::vector<Type>& arguments, Place place);
  void check_op(OpId id, Place place);
  void check_types(const Op& op);
  void check_grid_op(const Op& op) const;
  void check_blocks(const Op& op, Place place);
  void check_yields(const std::vector<ValueId>& yielded, std::span<const Type> expected) const;
  void check_writable(ValueId view);
  void check_accumulation(const Op& contract) const;
  Accumulation accumulation(const Op& op, std::size_t operand) const;
  void derive_facts(const Op& op);

  const Kernel& kernel_;
  std::vector<Facts> facts_;
  std::vector<bool> op_seen_;
  std::vector<bool> block_seen_;
  int op_count_ = 0;
  int local_count_ = 0;
  const Op* op_ = nullptr;  // the innermost op under check, for messages
};

std::string Verifier::text(ValueId id) const {
  if (id.index >= kernel_.values.size()) return fmt::format("%{}", id.index);
  const Value& value = kernel_.values[id.index];
  const std::string_view access = value.name.empty() ? "value " : "%";
  return value.name.empty() ? fmt::format("{}{}", access, id.index) : fmt::format("{}{}", access, value.name);
}

Error Verifier::located(Error error) const {
  error.with("kernel", kernel_.name);
  if (!op_) return error;
  std::string label(op_->code == Opcode::Elementwise ? name(op_->attributes.function) : name(op_->code));
  error.with("op", label);
  if (!op_->results.empty()) {
    error.with("value", text(op_->results[0]));
  } else if (!op_->operands.empty()) {
    error.with("operand", text(op_->operands[0]));
  }
  return error;
}

void Verifier::define(ValueId id, OpId definition) {
  if (id.index >= kernel_.values.size()) fail("refers to {}, of {} values", text(id), kernel_.values.size());
  if (facts(id).defined) fail("{} is defined twice", text(id));
  facts(id).defined = facts(id).visible = true;
  facts(id).definition = definition;
}

void Verifier::check_parameter(const Parameter& parameter) {
  define(parameter.value, OpId::none());
  const Type& type = kernel_.type(parameter.value);
  facts(parameter.value).known_at_launch = true;
  facts(parameter.value).roots = {parameter.value};
  const std::string broken = broken_limit(type);
  if (!broken.empty()) fail("parameter {} is {}, which {}", text(parameter.value), to_string(type), broken);
  if (parameter.alias_group < 0) fail("parameter {} has a negative alias group", text(parameter.value));
  if (type.is_scalar()) {
    if (parameter.access != Access::In)
      fail("scalar parameter {} can only be an input", text(parameter.value));
    return;
  }
  if (type.kind != TypeKind::MemoryView) {
    fail("parameter {} is {}, expected a scalar or a memory view", text(parameter.value), to_string(type));
  }
}

void Verifier::check_equal_extents() const {
  std::set<std::pair<std::uint32_t, int>> seen;
  for (const auto& group : kernel_.equal_extents) {
    if (group.size() < 2) fail("assumes that one extent is equal, expected two or more");
    for (const auto& [view, axis] : group) {
      const bool is_parameter =
          std::any_of(kernel_.parameters.begin(), kernel_.parameters.end(),
                      [&](const Parameter& parameter) { return parameter.value == view; });
      if (!is_parameter) fail("assumes something of extents of {}, which is no parameter", text(view));
      const Type& type = kernel_.type(view);
      if (axis < 0 || axis >= type.rank() || type.extents[static_cast<std::size_t>(axis)] != kDynamic) {
        fail("assumes something of extent {} of {}: {}, expected a run-time extent", axis, text(view),
             to_string(type));
      }
      if (!seen.emplace(view.index, axis).second) {
        fail("assumes something of extent {} of {} twice", axis, text(view));
      }
    }
  }
}

void Verifier::run() {
  if (!is_word(kernel_.name)) {
    fail("kernel name '{}', expected a letter or _, then letters, digits, _ and .", kernel_.name);
  }
  if (kernel_.parameters.size() > kMaxParameters) {
    fail("has {} parameters, expected at most {}", kernel_.parameters.size(), kMaxParameters);
  }
  for (const Parameter& parameter : kernel_.parameters) check_parameter(parameter);
  check_equal_extents();
  const std::vector<ValueId>& grid = check_block(kernel_.grid, {}, {.depth = 0, .in_grid = true});
  if (grid.empty() || grid.size() > static_cast<std::size_t>(kMaxGridRank)) {
    fail("grid has {} dimensions, expected 1 to {}", grid.size(), kMaxGridRank);
  }
  check_yields(grid, std::vector<Type>(grid.size(), Type::index()));
  const std::vector<ValueId>& yielded = check_block(kernel_.body, {}, {});
  check_yields(yielded, {});
}

const std::vector<ValueId>& Verifier::check_block(BlockId id, const std::vector<Type>& arguments,
                                                  Place place) {
  if (id.index >= kernel_.blocks.size()) fail("refers to block {}, of {}", id.index, kernel_.blocks.size());
  if (block_seen_[id.index]) fail("block {} is used twice", id.index);
  block_seen_[id.index] = true;
  if (place.depth > kMaxBlockDepth) fail("blocks nest more than {} deep", kMaxBlockDepth);
  const Block& block = kernel_.block(id);
  if (block.arguments.size() != arguments.size()) {
    fail("its block has {} arguments, expected {}", block.arguments.size(), arguments.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    define(block.arguments[i], OpId::none());
    if (kernel_.type(block.arguments[i]) != arguments[i]) {
      fail("block argument {} is {}, expected {}", text(block.arguments[i]),
           to_string(kernel_.type(block.arguments[i])), to_string(arguments[i]));
    }
  }
  const Op* const outer = op_;
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const OpId op = block.ops[i];
    if (op.index >= kernel_.ops.size()) fail("refers to op {}, of {}", op.index, kernel_.ops.size());
    if (op_seen_[op.index]) fail("op {} is in two places", op.index);
    op_seen_[op.index] = true;
    if (++op_count_ > kMaxOps) fail("has more than {} ops", kMaxOps);
    op_ = &kernel_.op(op);
    if ((op_->code == Opcode::Yield) != (i + 1 == block.ops.size()))
      fail("a block ends in yield, and only there");
    check_op(op, place);
  }
  op_ = outer;
  if (block.ops.empty()) fail("a block ends in yield, and this one is empty");
  for (const ValueId argument : block.arguments) facts(argument).visible = false;
  for (const OpId op : block.ops) {
    for (const ValueId result : kernel_.op(op).results) facts(result).visible = false;
  }
  return kernel_.op(block.ops.back()).operands;
}

void Verifier::check_op(OpId id, Place place) {
  const Op& op = kernel_.op(id);
  for (const ValueId operand : op.operands) {
    if (operand.index >= kernel_.values.size())
      fail("refers to {}, of {} values", text(operand), kernel_.values.size());
    if (!facts(operand).defined) fail("uses {} before its definition", text(operand));
    if (!facts(operand).visible)
      fail("uses {}, which is defined in a block that does not enclose this op", text(operand));
  }
  check_types(op);
  if (place.in_grid) check_grid_op(op);
  check_blocks(op, place);
  for (const ValueId result : op.results) define(result, id);
  derive_facts(op);

  switch (op.code) {
    case Opcode::Store:
    case Opcode::AtomicAdd:
      check_writable(op.operands[0]);
      break;
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
      if (op.attributes.axes[0] >= kernel_.grid_rank()) {
        fail("axis {} of a grid of {} dimensions", op.attributes.axes[0], kernel_.grid_rank());
      }
      break;
    case Opcode::Local:
      if (place.depth > 0) fail("a local is declared at the top of the body, not in a nested block");
      for (const ValueId extent : op.operands) {
        if (!facts(extent).known_at_launch) {
          fail("extent {} must follow from parameters, their dims and constants", text(extent));
        }
      }
      break;
    case Opcode::Contract:
      check_accumulation(op);
      break;
    default:
      break;  // the other rules concern types alone
  }
}

void Verifier::check_types(const Op& op) {
  std::vector<Type> operands, results;
  for (const ValueId operand : op.operands) operands.push_back(kernel_.type(operand));
  for (const ValueId result : op.results) {
    if (result.index >= kernel_.values.size())
      fail("refers to {}, of {} values", text(result), kernel_.values.size());
    results.push_back(kernel_.type(result));
  }
  try {
    const std::vector<Type> inferred = infer_types(op.code, operands, op.attributes, results);
    if (inferred != results) fail("has {} results, expected {}", results.size(), inferred.size());
  } catch (const Error& error) {
    if (!error.context().empty()) throw;
    throw located(error);
  }
}

void Verifier::check_grid_op(const Op& op) const {
  switch (op.code) {
    case Opcode::Constant:
    case Opcode::Elementwise:
    case Opcode::Cast:
    case Opcode::Bitcast:
    case Opcode::Dim:
    case Opcode::Assume:
    case Opcode::Yield:
      break;
    default:
      fail("a grid is made of scalar arithmetic and dims of parameters only");
  }
  for (const ValueId result : op.results) {
    if (!kernel_.type(result).is_scalar())
      fail("a grid is made of scalars, not {}", to_string(kernel_.type(result)));
  }
}

void Verifier::check_blocks(const Op& op, Place place) {
  const std::size_t expected = op.code == Opcode::If                                   ? 2
                               : op.code == Opcode::For || op.code == Opcode::Contract ? 1
                                                                                       : 0;
  if (op.blocks.size() != expected) fail("has {} blocks, expected {}", op.blocks.size(), expected);
  if (expected == 0) return;
  std::vector<Type> results;
  for (const ValueId result : op.results) results.push_back(kernel_.type(result));
  std::vector<Type> arguments;
  if (op.code == Opcode::For) {
    const OpId step = facts(op.operands[2]).definition;
    const Op* constant = step ? &kernel_.op(step) : nullptr;
    if (!constant || constant->code != Opcode::Constant || constant->attributes.literal->as_integer() < 1) {
      fail("step {} must be a constant of at least 1", text(op.operands[2]));
    }
    arguments.push_back(Type::index());
  } else if (op.code == Opcode::Contract) {
    arguments.assign(op.attributes.sizes.size(), Type::index());
  }
  if (op.code != Opcode::If) arguments.insert(arguments.end(), results.begin(), results.end());
  ++place.depth;
  for (const BlockId block : op.blocks) check_yields(check_block(block, arguments, place), results);
}

void Verifier::check_yields(const std::vector<ValueId>& yielded, std::span<const Type> expected) const {
  if (yielded.size() != expected.size())
    fail("yields {} values, expected {}", yielded.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Type& type = kernel_.type(yielded[i]);
    if (type != expected[i])
      fail("yields {}, {}, expected {}", text(yielded[i]), to_string(type), to_string(expected[i]));
  }
}

void Verifier::check_writable(ValueId view) {
  if (facts(view).repeating) {
    fail("a view made by {} may show one element twice and cannot be stored to",
         name(*facts(view).repeating));
  }
  for (const ValueId root : facts(view).roots) {
    const auto parameter = std::find_if(kernel_.parameters.begin(), kernel_.parameters.end(),
                                        [&](const Parameter& p) { return p.value == root; });
    if (parameter != kernel_.parameters.end() && parameter->access == Access::In) {
      fail("{} is an input; declare it out or inout to store to it", text(root));
    }
  }
}

Accumulation Verifier::accumulation(const Op& op, std::size_t operand) const {
  if (op.code == Opcode::Dot) return operand == 0 ? Accumulation::Sum : Accumulation::None;
  if (op.code != Opcode::Elementwise) return Accumulation::None;
  switch (op.attributes.function) {
    case Function::Add:
      return Accumulation::Sum;
    case Function::Sub:
      return operand == 0 ? Accumulation::Sum : Accumulation::None;
    case Function::Fma:
      return operand == 2 ? Accumulation::Sum : Accumulation::None;
    case Function::Mul:
      return Accumulation::Prod;
    case Function::Min:
      return Accumulation::Min;
    case Function::Max:
      return Accumulation::Max;
    case Function::MinNum:
      return Accumulation::MinNum;
    case Function::MaxNum:
      return Accumulation::MaxNum;
    case Function::And:
      return Accumulation::And;
    case Function::Or:
      return Accumulation::Or;
    case Function::Xor:
      return Accumulation::Xor;
    default:
      return Accumulation::None;
  }
}

// Carried values of a contract reach the yield only through one kind of accumulation each, at the top of the
// block: so a Schedule may give parts of the iterations a partial result each and combine them.
void Verifier::check_accumulation(const Op& contract) const {
  struct Link {
    std::size_t carried;
    Accumulation kind = Accumulation::None;
  };
  const Block& block = kernel_.block(contract.blocks[0]);
  const std::size_t indices = contract.attributes.sizes.size();
  std::unordered_map<ValueId, Link> chain;
  for (std::size_t i = indices; i < block.arguments.size(); ++i) chain[block.arguments[i]] = {i - indices};
  const auto find = [&](ValueId id) {
    const auto link =
        std::find_if(chain.begin(), chain.end(), [&](const auto& entry) { return entry.first == id; });
    return link == chain.end() ? nullptr : &link->second;
  };
  const auto refuse = [&](ValueId id) {
    fail(
        "carried value {} may only be accumulated into: by dot, fma or sub from their accumulator operand, "
        "or by "
        "one of add, mul, min, max, minnum, maxnum, and, or, xor",
        text(id));
  };
  const auto visit = [&](const auto& self, const Block& inside, bool nested) -> void {
    for (const OpId id : inside.ops) {
      const Op& op = kernel_.op(id);
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        const Link* const found = find(op.operands[k]);
        if (!found) continue;
        Link link = *found;
        if (nested) refuse(op.operands[k]);
        if (op.code == Opcode::Yield) {
          if (link.carried != k) refuse(op.operands[k]);
          continue;
        }
        const bool only_once = std::count_if(op.operands.begin(), op.operands.end(), find) == 1;
        if (op.code != Opcode::Reshape) {
          const Accumulation kind = accumulation(op, k);
          if (kind == Accumulation::None || (link.kind != Accumulation::None && link.kind != kind)) {
            refuse(op.operands[k]);
          }
          link.kind = kind;
        }
        if (!only_once) refuse(op.operands[k]);
        chain[op.results[0]] = link;
      }
      for (const BlockId nested_block : op.blocks) self(self, kernel_.block(nested_block), true);
    }
  };
  visit(visit, block, false);
  const std::vector<ValueId>& yielded = kernel_.op(block.ops.back()).operands;
  for (std::size_t i = 0; i < yielded.size(); ++i) {
    if (!find(yielded[i])) {
      fail("yields {}, which does not accumulate into carried value {}", text(yielded[i]),
           text(block.arguments[indices + i]));
    }
  }
}

void Verifier::derive_facts(const Op& op) {
  switch (op.code) {
    case Opcode::ProgramId:
    case Opcode::Load:
    case Opcode::For:
    case Opcode::If:
    case Opcode::Contract:
      break;
    default:
      for (const ValueId result : op.results) {
        facts(result).known_at_launch = std::all_of(op.operands.begin(), op.operands.end(),
                                                    [&](ValueId id) { return facts(id).known_at_launch; });
      }
  }
  if (op.results.size() != 1 || !kernel_.type(op.results[0]).is_view()) return;
  Facts& view = facts(op.results[0]);
  if (op.code == Opcode::Local) {
    view.roots = {op.results[0]};
    if (++local_count_ > kMaxLocals) fail("has more than {} locals", kMaxLocals);
    return;
  }
  const Facts& source = facts(op.operands[0]);
  view.roots = source.roots;
  view.repeating = source.repeating;
  for (const ValueId operand : op.operands)
    view.view_depth = std::max(view.view_depth, facts(operand).view_depth + 1);
  if (view.view_depth > kMaxViewDepth) fail("views are derived more than {} deep", kMaxViewDepth);
  const bool pads = op.code == Opcode::PadView && op.attributes.pad_mode != PadMode::Constant;
  if (op.code == Opcode::BroadcastView || op.code == Opcode::WindowView || pads) view.repeating = op.code;
  if (op.code == Opcode::ConcatView) {
    const Facts& other = facts(op.operands[1]);
    if (other.repeating) view.repeating = other.repeating;
    for (const ValueId root : other.roots) {
      const bool shared = std::find(view.roots.begin(), view.roots.end(), root) != view.roots.end();
      if (shared) view.repeating = op.code;
      if (!shared) view.roots.push_back(root);
    }
  }
}

}  // namespace

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

}  // namespace kiln::tile
