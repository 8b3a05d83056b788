#include <utility>

#include "ir/tile/expansions.h"
#include "ir/tile/passes/passes.h"
#include "ir/tile/passes/rewrite.h"

namespace kiln::tile {

void expand_functions(Kernel& kernel) {
  KernelBuilder builder(std::move(kernel));
  Kernel& building = builder.kernel();
  Substitution replaced;
  const std::size_t block_count = building.blocks.size();
  for (std::size_t i = 0; i < block_count; ++i) {
    const BlockId block{static_cast<std::uint32_t>(i)};
    const std::vector<OpId> ops = std::exchange(building.blocks[i].ops, {});
    builder.open(block);
    for (const OpId id : ops) {
      if (building.op(id).code != Opcode::Elementwise || is_primitive(building.op(id).attributes.function)) {
        building.blocks[i].ops.push_back(id);
        continue;
      }
      const Op op = building.op(id);
      Exprs operands;
      for (const ValueId operand : op.operands) operands.emplace_back(&builder, replaced(operand));
      replaced.set(op.results[0], expand(op.attributes.function, operands).id());
    }
    builder.close();
  }
  kernel = std::move(building);
  replaced.apply(kernel);
  compact(kernel);
}

}  // namespace kiln::tile
