#include "jit/cpu/logsumexp.h"

#include <algorithm>
#include <utility>

#include "ir/tile/builder.h"
#include "ir/tile/passes/rewrite.h"

namespace kiln::jit::cpu {

using namespace tile;  // NOLINT(google-build-using-namespace)

void expand_logsumexp(Kernel& kernel) {
  const auto is_logsumexp = [](const Op& op) {
    return op.code == Opcode::Reduce && op.attributes.combiner == Combiner::LogSumExp;
  };
  if (std::none_of(kernel.ops.begin(), kernel.ops.end(), is_logsumexp)) return;
  KernelBuilder builder(std::move(kernel));
  Kernel& building = builder.kernel();
  Substitution replaced;
  const std::size_t block_count = building.blocks.size();
  for (std::size_t i = 0; i < block_count; ++i) {
    const std::vector<OpId> ops = std::exchange(building.blocks[i].ops, {});
    builder.open(BlockId{static_cast<std::uint32_t>(i)});
    for (const OpId id : ops) {
      if (!is_logsumexp(building.op(id))) {
        building.blocks[i].ops.push_back(id);
        continue;
      }
      const Op op = building.op(id);
      const int axis = static_cast<int>(op.attributes.axes[0]);
      const Expr x(&builder, replaced(op.operands[0]));
      const Expr top = builder.reduce(Combiner::Max, x, axis);
      std::vector<std::int64_t> kept = x.type().extents;
      kept[static_cast<std::size_t>(axis)] = 1;
      const Expr reference = builder.reshape(top, kept);
      const Expr share = select(eq(x, reference), 1, exp(x - reference));
      replaced.set(op.results[0], top.id());
      replaced.set(op.results[1], builder.reduce(Combiner::Sum, share, axis).id());
    }
    builder.close();
  }
  kernel = std::move(building);
  replaced.apply(kernel);
  compact(kernel);
}

}  // namespace kiln::jit::cpu
