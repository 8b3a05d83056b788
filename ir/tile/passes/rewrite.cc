#include "ir/tile/passes/rewrite.h"

#include <utility>

namespace kiln::tile {
namespace {

// Copies what is reached from a Kernel into a new one.
class Compactor {
 public:
  explicit Compactor(Kernel& from) : from_(from), values_(from.values.size()) {}

  Kernel run() {
    to_.name = std::move(from_.name);
    for (const Parameter& parameter : from_.parameters) {
      to_.parameters.push_back({define(parameter.value), parameter.access, parameter.alias_group});
    }
    to_.equal_extents = std::move(from_.equal_extents);
    for (auto& group : to_.equal_extents) {
      for (ParameterExtent& extent : group) extent.view = values_[extent.view.index];
    }
    to_.grid = copy(from_.grid);
    to_.body = copy(from_.body);
    return std::move(to_);
  }

 private:
  ValueId define(ValueId id) {
    values_[id.index] = ValueId{static_cast<std::uint32_t>(to_.values.size())};
    to_.values.push_back(std::move(from_.values[id.index]));
    return values_[id.index];
  }

  BlockId copy(BlockId id) {
    const BlockId block{static_cast<std::uint32_t>(to_.blocks.size())};
    to_.blocks.emplace_back();
    for (const ValueId argument : from_.block(id).arguments) {
      const ValueId defined = define(argument);
      to_.blocks[block.index].arguments.push_back(defined);
    }
    for (const OpId old : from_.block(id).ops) {
      Op op = std::move(from_.ops[old.index]);
      for (ValueId& operand : op.operands) operand = values_[operand.index];
      for (BlockId& inner : op.blocks) inner = copy(inner);
      for (ValueId& result : op.results) result = define(result);
      to_.blocks[block.index].ops.push_back(OpId{static_cast<std::uint32_t>(to_.ops.size())});
      to_.ops.push_back(std::move(op));
    }
    return block;
  }

  Kernel& from_;
  Kernel to_;
  std::vector<ValueId> values_;  // the new Value of each old one
};

}  // namespace

void compact(Kernel& kernel) { kernel = Compactor(kernel).run(); }

}  // namespace kiln::tile
