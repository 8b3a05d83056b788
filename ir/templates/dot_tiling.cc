#include "ir/templates/dot_tiling.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "ir/base/checked_math.h"

namespace kiln::templates {

using graph::Shape;

std::optional<DType> accumulator_dtype(DType operand) {
  switch (operand) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      return DType::F32;
    case DType::F64:
    case DType::I32:
    case DType::I64:
    case DType::U32:
    case DType::U64:
      return operand;
    default:
      return std::nullopt;
  }
}

DotTiling dot_tiling(std::int64_t columns, DType accumulator, const Target& target) {
  const std::int64_t lanes = target.vector_bytes() * 8 / bits(accumulator);
  // Wide panels need fewer loads of A for a multiplication; narrow results must not pay for empty columns.
  const std::int64_t widest = target.isa == Isa::X86_64_V4 ? 4 : 2;
  std::int64_t vectors = widest;
  if (columns != tile::kDynamic) {
    const std::int64_t needed = std::max<std::int64_t>(1, ceil_divide(columns, lanes));
    vectors = std::min(widest, needed);
    // 3 vectors where they leave less of the last panel empty than 4.
    if (widest == 4 && needed > 4 && needed % 4 != 0 && needed % 3 == 0) vectors = 3;
  }
  DotTiling tiling{
      .panel = vectors * lanes, .register_rows = 0, .register_vectors = static_cast<int>(vectors)};
  if (target.isa == Isa::X86_64_V4) {
    constexpr int kRows[] = {0, 14, 14, 8, 6};
    tiling.register_rows = kRows[vectors];
  } else {
    constexpr int kRows[] = {0, 10, 6};
    tiling.register_rows = kRows[vectors];
  }
  return tiling;
}

Shape packed_extents(const PackedSource& source, const DotTiling& tiling) {
  Shape extents{source.extents.front(), ceil_divide(source.extents.back().constant(), tiling.panel)};
  extents.insert(extents.end(), source.extents.begin() + 1, source.extents.end() - 1);
  extents.emplace_back(tiling.panel);
  return extents;
}

std::string pack_key(const DotTiling& tiling) { return fmt::format("panels:{}", tiling.panel); }

int add_packed(ProgramBuilder& program, const PackedSource& source, const DotTiling& tiling, DType dtype) {
  const Shape packed = packed_extents(source, tiling);
  const int value = source.constant ? program.prepared(dtype, element_count(packed))
                                    : program.workspace(dtype, element_count(packed));
  ProgramBuilder::Launch launch(program, "pack_panels");
  tile::KernelBuilder& k = launch.builder();
  tile::View from = launch.input("w", source.value, source.extents, source.strides);
  const tile::View to = launch.output("packed", value, packed, graph::dense_strides(packed));
  // A program copies up to `block` of the innermost depth axis of one panel; outer depth axes are grid axes.
  const std::size_t depth_axes = source.extents.size() - 2;
  const std::int64_t inner_depth = source.extents[depth_axes].constant();
  const std::int64_t block = std::clamp<std::int64_t>(inner_depth, 1, 64);
  k.grid([&] {
    tile::Indices grid;
    for (std::size_t a = 0; a + 2 < packed.size(); ++a) grid.emplace_back(packed[a].constant());
    grid.emplace_back(ceil_divide(inner_depth, block));
    return grid;
  });
  if (!source.backwards.empty()) {
    tile::Indices starts, extents;
    std::vector<std::int64_t> steps;
    for (std::size_t a = 0; a < source.extents.size(); ++a) {
      const std::int64_t extent = source.extents[a].constant();
      starts.emplace_back(source.backwards[a] ? extent - 1 : 0);
      extents.emplace_back(extent);
      steps.push_back(source.backwards[a] ? -1 : 1);
    }
    from = from.slice(starts, extents, std::move(steps));
  }
  const tile::Expr group = k.program_id(0), panel = k.program_id(1);
  const tile::Expr depth = k.program_id(static_cast<int>(packed.size()) - 2) * block;
  tile::Indices from_at{group}, to_at{group, panel};
  std::vector<std::int64_t> from_extents{1}, to_extents{1, 1};
  for (std::size_t a = 2; a + 2 < packed.size(); ++a) {
    const tile::Expr outer = k.program_id(static_cast<int>(a));
    from_at.emplace_back(outer);
    to_at.emplace_back(outer);
    from_extents.push_back(1);
    to_extents.push_back(1);
  }
  for (auto* at : {&from_at, &to_at}) at->emplace_back(depth);
  from_at.emplace_back(panel * tiling.panel);
  to_at.emplace_back(0);
  for (auto* extents : {&from_extents, &to_extents}) {
    extents->push_back(block);
    extents->push_back(tiling.panel);
  }
  to.store(to_at, k.reshape(from.load(from_at, from_extents), to_extents));
  launch.cost(0, block * tiling.panel * 8);
  if (source.constant) {
    program.add_prepare(launch);
  } else {
    program.add(launch);
  }
  return value;
}

}  // namespace kiln::templates
