// dot: matrix products (MatMul, Gemm, 1x1 Conv) with an elementwise epilogue. A constant B is packed once
// into panels; any other B is read where it lies.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "ir/templates/dot_tiling.h"
#include "ir/templates/epilogue.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Expr;
using tile::Indices;

constexpr std::int64_t kManyRows = 96, kFewRows = 16;
constexpr std::int64_t kDepthBlock = 64;

// The root as out[space] = sum over k of a[...] * b[...]: for each axis of the space (the result's axes, in
// the result's order) a stride of A and of B, 0 where the operand does not have the axis.
struct MatrixProduct {
  Shape space;
  std::vector<Dim> a_strides, b_strides;
  std::vector<int> rows, columns, batch;  // axes of the space
  Dim depth = 0, a_depth_stride = 0, b_depth_stride = 0;
  int a = 0, b = 0;               // numbers of the Problem's inputs
  int bias = -1;                  // Gemm's C or Conv's B: input number, or -1
  std::vector<Dim> bias_strides;  // over the space
  double alpha = 1, beta = 1;
};

bool has_operand(const Node& node, std::size_t i) { return i < node.inputs.size() && node.inputs[i]; }

std::optional<MatrixProduct> matmul(const Problem& problem, const Node& node) {
  const graph::Value& a = problem.graph.value(node.inputs[0]);
  const graph::Value& b = problem.graph.value(node.inputs[1]);
  if (a.shape->size() < 2 || b.shape->size() < 2) return std::nullopt;
  MatrixProduct product;
  product.space = *problem.graph.value(node.outputs[0]).shape;
  const std::size_t rank = product.space.size(), a_rank = a.shape->size(), b_rank = b.shape->size();
  // Batch axes broadcast as elementwise operands do, over the space with a depth axis in place of the missing
  // one.
  Shape a_space = product.space, b_space = product.space;
  a_space[rank - 1] = a.shape->back();
  b_space[rank - 2] = (*b.shape)[b_rank - 2];
  product.a_strides = broadcast_strides(a, a_space);
  product.b_strides = broadcast_strides(b, b_space);
  product.a_strides[rank - 1] = 0;
  product.b_strides[rank - 2] = 0;
  product.a_strides[rank - 2] = a.layout->strides[a_rank - 2];
  product.b_strides[rank - 1] = b.layout->strides[b_rank - 1];
  for (std::size_t i = 0; i + 2 < rank; ++i) product.batch.push_back(static_cast<int>(i));
  product.rows = {static_cast<int>(rank) - 2};
  product.columns = {static_cast<int>(rank) - 1};
  product.depth = a.shape->back();
  product.a_depth_stride = a.layout->strides.back();
  product.b_depth_stride = b.layout->strides[b_rank - 2];
  return product;
}

std::optional<MatrixProduct> gemm(const Problem& problem, const Node& node) {
  const graph::Value& a = problem.graph.value(node.inputs[0]);
  const graph::Value& b = problem.graph.value(node.inputs[1]);
  const std::size_t a_row = integer(node, "transA") != 0 ? 1 : 0;
  const std::size_t b_column = integer(node, "transB") != 0 ? 0 : 1;
  MatrixProduct product;
  product.space = *problem.graph.value(node.outputs[0]).shape;
  product.a_strides = {a.layout->strides[a_row], 0};
  product.b_strides = {0, b.layout->strides[b_column]};
  product.rows = {0};
  product.columns = {1};
  product.depth = (*a.shape)[1 - a_row];
  product.a_depth_stride = a.layout->strides[1 - a_row];
  product.b_depth_stride = b.layout->strides[1 - b_column];
  product.alpha = number(node, "alpha");
  product.beta = number(node, "beta");
  return product;
}

bool all_equal(std::span<const std::int64_t> values, std::int64_t wanted) {
  return std::all_of(values.begin(), values.end(), [&](std::int64_t v) { return v == wanted; });
}

// A convolution whose window is one element is a product over channels.
std::optional<MatrixProduct> pointwise_convolution(const Problem& problem, const Node& node) {
  const graph::Value& x = problem.graph.value(node.inputs[0]);
  const graph::Value& w = problem.graph.value(node.inputs[1]);
  if (!has(node, "kernel_shape") || integer(node, "group") != 1 || text(node, "auto_pad") != "NOTSET" ||
      !all_equal(integers(node, "kernel_shape"), 1) || !all_equal(integers(node, "pads"), 0)) {
    return std::nullopt;
  }
  MatrixProduct product;
  product.space = *problem.graph.value(node.outputs[0]).shape;
  const std::size_t rank = product.space.size();
  product.a_strides = x.layout->strides;
  const auto steps = integers(node, "strides");
  for (std::size_t i = 2; i < rank; ++i) product.a_strides[i] = product.a_strides[i] * Dim(steps[i - 2]);
  product.a_strides[1] = 0;
  product.b_strides.assign(rank, Dim(0));
  product.b_strides[1] = w.layout->strides[0];
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != 1) product.rows.push_back(static_cast<int>(i));
  }
  product.columns = {1};
  product.depth = (*x.shape)[1];
  product.a_depth_stride = x.layout->strides[1];
  product.b_depth_stride = w.layout->strides[1];
  return product;
}

// Strides of a bias over the space: Gemm's C broadcasts from the right, Conv's B lies along axis 1.
std::vector<Dim> bias_strides(const Problem& problem, const Node& node, const Shape& space) {
  const graph::Value& bias = problem.graph.value(node.inputs[2]);
  if (node.op == OpKind::Gemm) return broadcast_strides(bias, space);
  std::vector<Dim> strides(space.size(), Dim(0));
  strides[1] = bias.layout->strides[0];
  return strides;
}

std::optional<MatrixProduct> product_of(const Problem& problem) {
  const Node& node = problem.graph.node(problem.root);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!has_operand(node, i) || !problem.graph.value(node.inputs[i]).shape) return std::nullopt;
  }
  std::optional<MatrixProduct> product;
  if (node.op == OpKind::MatMul) product = matmul(problem, node);
  if (node.op == OpKind::Gemm) product = gemm(problem, node);
  if (node.op == OpKind::Conv) product = pointwise_convolution(problem, node);
  if (!product) return std::nullopt;
  const auto a = input_number(problem, node.inputs[0]), b = input_number(problem, node.inputs[1]);
  if (!a || !b) return std::nullopt;
  product->a = static_cast<int>(*a);
  product->b = static_cast<int>(*b);
  if (has_operand(node, 2) && product->beta != 0) {
    const auto bias = input_number(problem, node.inputs[2]);
    if (!bias) return std::nullopt;
    product->bias = static_cast<int>(*bias);
    product->bias_strides = bias_strides(problem, node, product->space);
  }
  return product;
}

bool packs_b(const Problem& problem, const MatrixProduct& product) {
  const bool constant_depth = product.depth.is_constant() && product.depth.constant() > 0;
  const auto is_zero = [&](int axis) { return product.b_strides[static_cast<std::size_t>(axis)] == Dim(0); };
  return problem.input_is_constant[static_cast<std::size_t>(product.b)] && constant_depth &&
         product.space[static_cast<std::size_t>(product.columns[0])].is_constant() &&
         std::all_of(product.batch.begin(), product.batch.end(), is_zero);
}

// Operands over the space: A, B, the bias if there is one, then the epilogue's.
struct Nest {
  IterationSpace space;
  std::size_t row_axis = 0;  // the one before the column axis, which is the last
  std::size_t first_epilogue_operand = 0;
};

Nest nest_of(const Problem& problem, const MatrixProduct& product) {
  std::vector<std::vector<Dim>> strides{product.a_strides, product.b_strides};
  if (product.bias >= 0) strides.push_back(product.bias_strides);
  Nest nest;
  nest.first_epilogue_operand = strides.size();
  for (const std::size_t i : epilogue_inputs(problem)) {
    strides.push_back(broadcast_strides(problem.graph.value(problem.graph.inputs[i]), product.space));
  }
  const std::size_t first_output = strides.size();
  for (const ValueId id : problem.graph.outputs)
    strides.push_back(broadcast_strides(problem.graph.value(id), product.space));
  // With B the same for all, batch axes are rows like any other.
  std::vector<std::vector<int>> groups;
  std::vector<int> rows = product.rows;
  if (packs_b(problem, product)) {
    rows.insert(rows.begin(), product.batch.begin(), product.batch.end());
  } else if (!product.batch.empty()) {
    groups.push_back(product.batch);
  }
  groups.push_back(rows);
  groups.push_back(product.columns);
  std::vector<int> counts;
  nest.space = collapse_groups(product.space, strides, first_output, groups, counts);
  nest.row_axis = nest.space.rank() - 2;
  return nest;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Node& node = problem.graph.node(problem.root);
  const auto product = product_of(problem);
  if (!product) return "its root is no matrix product over known ranks";
  if (auto reason = why_no_epilogue(problem)) return reason;
  if (!accumulator_dtype(problem.graph.value(node.inputs[0]).dtype)) {
    return fmt::format("no dot on {}", name(problem.graph.value(node.inputs[0]).dtype));
  }
  if (nest_of(problem, *product).space.rank() > std::size_t{tile::kMaxGridRank})
    return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const MatrixProduct product = *product_of(problem);
  const Nest nest = nest_of(problem, product);
  const Dim& rows = nest.space.extents[nest.row_axis];
  const std::int64_t block =
      rows.is_constant() ? std::clamp<std::int64_t>(rows.constant(), 1, kManyRows) : kManyRows;
  std::vector<VariantChoice> choices{
      {.name = "default", .guard = std::nullopt, .parameters = {{"rows", block}}}};
  if (!rows.is_constant()) {
    choices.push_back(
        {.name = "few_rows", .guard = Guard{rows, 0, kFewRows}, .parameters = {{"rows", kFewRows}}});
  }
  return choices;
}

Program build(const Problem& problem, const Parameters& parameters, const Target& target) {
  const Node& root = problem.graph.node(problem.root);
  const MatrixProduct product = *product_of(problem);
  const Nest nest = nest_of(problem, product);
  const IterationSpace& space = nest.space;
  const DType dtype = problem.graph.value(root.inputs[0]).dtype;
  const DType accumulator = *accumulator_dtype(dtype);
  const std::size_t column_axis = space.rank() - 1;
  const DotTiling tiling = dot_tiling(static_extent(space.extents[column_axis]), accumulator, target);
  const std::int64_t row_block = parameters.at("rows");
  const std::int64_t depth_block = product.depth.is_constant()
                                       ? std::clamp<std::int64_t>(product.depth.constant(), 1, kDepthBlock)
                                       : kDepthBlock;
  const bool packed = packs_b(problem, product);

  ProgramBuilder program(problem);
  int packed_value = -1;
  PackedSource source;
  if (packed) {
    source = {.value = program.input(static_cast<std::size_t>(product.b)),
              .extents = {1, product.depth, space.extents[column_axis]},
              .strides = {0, product.b_depth_stride, space.strides[1][column_axis]}};
    packed_value = add_packed(program, source, tiling, dtype);
    program.prepare_key(pack_key(tiling));
  }

  ProgramBuilder::Launch launch(program, "dot");
  tile::KernelBuilder& k = launch.builder();
  // A over the outer axes, rows and depth; B over the outer axes, depth and columns, or panels.
  const auto outer_and = [&](std::size_t operand, Dim first, Dim first_stride, Dim second, Dim second_stride,
                             Shape& extents, std::vector<Dim>& strides) {
    extents.assign(space.extents.begin(), space.extents.begin() + static_cast<std::ptrdiff_t>(nest.row_axis));
    strides.assign(space.strides[operand].begin(),
                   space.strides[operand].begin() + static_cast<std::ptrdiff_t>(nest.row_axis));
    extents.push_back(std::move(first));
    extents.push_back(std::move(second));
    strides.push_back(std::move(first_stride));
    strides.push_back(std::move(second_stride));
  };
  Shape extents;
  std::vector<Dim> strides;
  outer_and(0, space.extents[nest.row_axis], space.strides[0][nest.row_axis], product.depth,
            product.a_depth_stride, extents, strides);
  const tile::View a =
      launch.input("a", program.input(static_cast<std::size_t>(product.a)), extents, strides);
  tile::View b;
  if (packed) {
    const Shape shape = packed_extents(source, tiling);
    b = launch.input("b", packed_value, shape, graph::dense_strides(shape));
  } else {
    outer_and(1, product.depth, product.b_depth_stride, space.extents[column_axis],
              space.strides[1][column_axis], extents, strides);
    b = launch.input("b", program.input(static_cast<std::size_t>(product.b)), extents, strides);
  }
  tile::View bias;
  if (product.bias >= 0) {
    bias = launch.input("bias", program.input(static_cast<std::size_t>(product.bias)), space.extents,
                        space.strides[2]);
  }
  Epilogue epilogue(program, launch, problem, space, nest.first_epilogue_operand);

  k.grid([&] {
    Indices grid;
    for (std::size_t axis = 0; axis < space.rank(); ++axis) {
      const Expr extent = epilogue.output().dim(static_cast<int>(axis));
      const std::int64_t block = axis == nest.row_axis ? row_block : axis == column_axis ? tiling.panel : 1;
      grid.emplace_back(block == 1 ? extent : ceildiv(extent, block));
    }
    return grid;
  });
  Indices outer;
  std::vector<std::int64_t> ones(nest.row_axis, 1);
  for (std::size_t axis = 0; axis < nest.row_axis; ++axis)
    outer.emplace_back(k.program_id(static_cast<int>(axis)));
  const Expr row = k.program_id(static_cast<int>(nest.row_axis)) * row_block;
  const Expr panel = k.program_id(static_cast<int>(column_axis));
  const Expr column = panel * tiling.panel;
  const auto with = [](auto list, auto... more) {
    (list.emplace_back(more), ...);
    return list;
  };
  Expr result = k.contract(
      {a.dim(static_cast<int>(nest.row_axis) + 1)}, {depth_block},
      {k.zeros(accumulator, {row_block, tiling.panel})},
      [&](const tile::Exprs& at, const tile::Exprs& carried) -> tile::Exprs {
        const Expr left = a.load(with(outer, row, at[0]), with(ones, row_block, depth_block));
        const Expr right = packed ? b.load({0, panel, at[0], 0}, {1, 1, depth_block, tiling.panel})
                                  : b.load(with(outer, at[0], column), with(ones, depth_block, tiling.panel));
        return {k.dot(carried[0], left, right)};
      })[0];
  if (product.alpha != 1) result = result * product.alpha;
  const Indices at = with(outer, row, column);
  const std::vector<std::int64_t> box = with(ones, row_block, tiling.panel);
  if (product.bias >= 0) {
    Expr added = k.cast(bias.load(at, box), accumulator);
    if (product.beta != 1) added = added * product.beta;
    result = k.reshape(result, box) + added;
  }
  epilogue.finish(k.reshape(result, box), at, box);
  launch.schedule().register_rows = tiling.register_rows;
  launch.schedule().register_vectors = tiling.register_vectors;
  const std::int64_t elements = row_block * tiling.panel;
  launch.cost(Dim(2 * elements) * product.depth + Dim(elements * epilogue_flops(problem)),
              Dim((row_block + tiling.panel) * bits(dtype) / 8) * product.depth +
                  Dim(elements * epilogue_bytes(problem)));
  program.add(launch);
  return program.finish();
}

}  // namespace

extern const Template dot_template;
const Template dot_template{.name = "dot",
                            .version = 1,
                            .refuses = refuses,
                            .variants = variants,
                            .build = build,
                            .samples = dot_samples};

}  // namespace kiln::templates
