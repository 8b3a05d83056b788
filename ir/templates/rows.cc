// rows: reductions, softmax and norms with the elementwise nodes round them, several reductions over the same
// row in one Kernel. Vectors run along the row where its elements are contiguous, else along neighbouring
// rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/templates/iteration_space.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/program_builder.h"
#include "ir/templates/row_program.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Problem;
using graph::Shape;
using graph::ValueId;
using tile::Combiner;
using tile::Expr;
using tile::Exprs;
using tile::Index;
using tile::Indices;

constexpr std::int64_t kWholeRow = 4096;      // a row up to this long, if constant, is one tile
constexpr std::int64_t kRowBlock = 512;       // elements of a longer or unknown row at a time
constexpr std::int64_t kNeighbours = 64;      // rows side by side where vectors run across rows
constexpr std::int64_t kNeighbourBlock = 64;  // their elements at a time
constexpr std::int64_t kKeptRow = 16384;      // elements that the "kept" Variant holds in local memory

// Axes after collapsing: outer ones, then the row's; with `across`, the last outer axis carries the vectors.
struct Nest {
  IterationSpace space;   // operands: inputs, then outputs
  std::size_t outer = 0;  // number of outer axes
  bool across = false;
  std::vector<bool> input_is_full;
  std::vector<std::optional<RowAlignment>> output_alignment;

  std::size_t row_axes() const { return space.rank() - outer; }
  const Dim& row() const { return space.extents.back(); }
  Dim row_elements() const {
    Dim product = 1;
    for (std::size_t i = outer; i < space.rank(); ++i) product = product * space.extents[i];
    return product;
  }
};

// Strides over the row space of a Value of any alignment; of one that `is_broadcast` by the nodes that read
// it.
std::vector<Dim> row_strides(const graph::Value& value, const RowSpace& space, bool is_broadcast) {
  if (is_broadcast || alignment(*value.shape, space) != RowAlignment::Dropped ||
      value.shape->size() == space.extents.size()) {
    return broadcast_strides(value, space.extents);
  }
  std::vector<Dim> strides;
  std::size_t next = 0;
  for (std::size_t i = 0; i < space.extents.size(); ++i) {
    const bool reduced = std::binary_search(space.reduced.begin(), space.reduced.end(), static_cast<int>(i));
    strides.push_back(reduced ? Dim(0) : value.layout->strides[next++]);
  }
  return strides;
}

bool is_broadcast(const Problem& problem, ValueId id, const RowSpace& space) {
  for (const graph::NodeId reader : problem.graph.topological_order()) {
    const graph::Node& node = problem.graph.node(reader);
    if (std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end())
      return broadcasts_over_rows(problem, node, space);
  }
  return false;
}

// A channel parameter of InstanceNormalization lies along axis 1, not the last.
bool is_channel_parameter(const Problem& problem, ValueId id) {
  const graph::Node& root = problem.graph.node(problem.root);
  return root.op == graph::OpKind::InstanceNormalization && (root.inputs[1] == id || root.inputs[2] == id);
}

Nest nest_of(const Problem& problem, const RowSpace& space) {
  const Graph& graph = problem.graph;
  Nest nest;
  std::vector<std::vector<Dim>> strides;
  for (const ValueId id : graph.inputs) {
    if (is_channel_parameter(problem, id)) {
      strides.emplace_back(space.extents.size(), Dim(0));
      strides.back()[1] = graph.value(id).layout->strides[0];
    } else {
      strides.push_back(row_strides(graph.value(id), space, is_broadcast(problem, id, space)));
    }
  }
  for (const ValueId id : graph.outputs) {
    nest.output_alignment.push_back(alignment(*graph.value(id).shape, space));
    strides.push_back(row_strides(graph.value(id), space, false));
  }
  const auto varies = [&](std::size_t operand) {
    return std::any_of(space.reduced.begin(), space.reduced.end(), [&](int axis) {
      const auto a = static_cast<std::size_t>(axis);
      return strides[operand][a] != Dim(0) && space.extents[a] != Dim(1);
    });
  };
  std::size_t order_by = 0;
  bool found = false;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    nest.input_is_full.push_back(varies(i));
    if (!found && nest.input_is_full.back() && *graph.value(graph.inputs[i]).shape == space.extents) {
      order_by = i;
      found = true;
    }
  }
  std::vector<int> outer;
  for (std::size_t i = 0; i < space.extents.size(); ++i) {
    if (!std::binary_search(space.reduced.begin(), space.reduced.end(), static_cast<int>(i)))
      outer.push_back(static_cast<int>(i));
  }
  const std::vector<std::vector<int>> groups{outer, space.reduced};
  std::vector<int> counts;
  nest.space = collapse_groups(space.extents, strides, order_by, groups, counts);
  nest.outer = static_cast<std::size_t>(counts[0]);
  const std::size_t last_outer = nest.outer - 1;
  nest.across = nest.space.strides[order_by][last_outer] == Dim(1) &&
                nest.space.extents[last_outer] != Dim(1) && nest.space.strides[order_by].back() != Dim(1);
  return nest;
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const auto space = row_space(problem);
  if (!space) return "its root is no row operator with constant axes";
  for (const ValueId id : problem.graph.inputs) {
    if (!problem.graph.value(id).shape) return "the rank of an input is unknown before running";
    if (problem.graph.value(id).shape->size() > space->extents.size())
      return "an input has more axes than the rows";
  }
  if (auto reason = why_no_row_program(problem, *space)) return reason;
  const Nest nest = nest_of(problem, *space);
  if (nest.outer > std::size_t{tile::kMaxGridRank}) return "more axes than a grid has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const RowSpace space = *row_space(problem);
  const Nest nest = nest_of(problem, space);
  const bool whole = nest.row_axes() == 1 && nest.row().is_constant() && nest.row().constant() >= 1 &&
                     nest.row().constant() <= (nest.across ? kNeighbourBlock : kWholeRow);
  const std::int64_t block = whole ? nest.row().constant() : nest.across ? kNeighbourBlock : kRowBlock;
  const Dim& neighbours = nest.space.extents[nest.outer - 1];
  const std::int64_t lanes = !nest.across ? 1
                             : neighbours.is_constant()
                                 ? std::clamp<std::int64_t>(neighbours.constant(), 1, kNeighbours)
                                 : kNeighbours;
  const Parameters base{{"block", block}, {"lanes", lanes}, {"whole", whole}, {"keep", 0}};
  std::vector<VariantChoice> choices{{.name = "default", .guard = std::nullopt, .parameters = base}};
  const RowProgram program = row_program(problem, space, nest.input_is_full, {});
  const bool anything_costly = std::any_of(program.values.begin(), program.values.end(),
                                           [](const RowValue& v) { return v.full && v.costly; });
  if (!whole && anything_costly && program.stages > 1 && nest.row_axes() == 1) {
    Parameters keep = base;
    keep["keep"] = 1;
    choices.push_back(
        {.name = "kept_row", .guard = Guard{nest.row(), 0, kKeptRow / lanes}, .parameters = std::move(keep)});
  }
  return choices;
}

// Builds the Kernel's body: one pass over the row for each stage.
class RowKernel {
 public:
  RowKernel(const Problem& problem, const RowSpace& space, const Nest& nest, const Parameters& parameters)
      : problem_(problem),
        nest_(nest),
        block_(parameters.at("block")),
        lanes_(parameters.at("lanes")),
        whole_(parameters.at("whole") != 0),
        keep_(parameters.at("keep") != 0),
        program_builder_(problem),
        launch_(program_builder_, "rows"),
        k_(launch_.builder()) {
    const auto count = [this](tile::KernelBuilder& k, DType dtype) { return k.cast(row_elements(), dtype); };
    program_ = row_program(problem, space, nest.input_is_full, count);
  }

  Program build() {
    bind_views();
    open_grid();
    row_values_.resize(program_.values.size());
    for (int stage = 0; stage < program_.stages; ++stage) run_stage(stage);
    if (program_.stages == 0) run_stage(0);
    store_row_outputs();
    const std::int64_t per_row = static_cast<std::int64_t>(program_.values.size()) * 4 * lanes_;
    launch_.cost(Dim(per_row) * nest_.row_elements(), Dim(8 * lanes_) * nest_.row_elements());
    program_builder_.add(launch_);
    return program_builder_.finish();
  }

 private:
  // Axes in the order of the views: outer ones, the row's, and last the neighbours if vectors run across.
  std::vector<std::size_t> view_order(bool with_row) const {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i + (nest_.across ? 1 : 0) < nest_.outer; ++i) order.push_back(i);
    for (std::size_t i = nest_.outer; with_row && i < nest_.space.rank(); ++i) order.push_back(i);
    if (nest_.across) order.push_back(nest_.outer - 1);
    return order;
  }

  template <typename List>
  std::vector<Dim> in_view_order(const List& values, bool with_row) const {
    std::vector<Dim> result;
    for (const std::size_t axis : view_order(with_row)) result.push_back(values[axis]);
    return result;
  }

  void bind_views() {
    const std::size_t inputs = problem_.graph.inputs.size();
    for (std::size_t i = 0; i < inputs; ++i) {
      const bool full = nest_.input_is_full[i];
      inputs_.push_back(launch_.input(fmt::format("x{}", i), program_builder_.input(i),
                                      in_view_order(nest_.space.extents, full),
                                      in_view_order(nest_.space.strides[i], full)));
    }
    for (std::size_t i = 0; i < problem_.graph.outputs.size(); ++i) {
      const bool full = nest_.output_alignment[i] == RowAlignment::Full;
      outputs_.push_back(launch_.output(fmt::format("y{}", i), program_builder_.output(i),
                                        in_view_order(nest_.space.extents, full),
                                        in_view_order(nest_.space.strides[inputs + i], full)));
    }
  }

  Expr extent_of(std::size_t axis) {
    const Dim& extent = nest_.space.extents[axis];
    if (extent.is_constant()) return k_.index(extent.constant());
    const auto found = scalars_.find(axis);
    if (found != scalars_.end()) return found->second;
    return scalars_[axis] = launch_.scalar(fmt::format("n{}", axis), extent);
  }

  Expr row_elements() {
    Expr product = extent_of(nest_.outer);
    for (std::size_t i = nest_.outer + 1; i < nest_.space.rank(); ++i) product = product * extent_of(i);
    return product;
  }

  void open_grid() {
    // Parameters must exist before the body opens.
    for (std::size_t i = nest_.outer; i < nest_.space.rank(); ++i) extent_of(i);
    if (nest_.across) extent_of(nest_.outer - 1);
    for (std::size_t i = 0; i < nest_.outer; ++i) extent_of(i);
    k_.grid([&] {
      Indices grid;
      for (std::size_t i = 0; i < nest_.outer; ++i) {
        const bool blocked = nest_.across && i == nest_.outer - 1;
        grid.emplace_back(blocked ? ceildiv(extent_of(i), lanes_) : extent_of(i));
      }
      return grid;
    });
    for (std::size_t i = 0; i < nest_.outer; ++i) {
      const Expr id = k_.program_id(static_cast<int>(i));
      if (nest_.across && i == nest_.outer - 1) {
        neighbour_ = id * lanes_;
      } else {
        outer_at_.emplace_back(id);
      }
    }
  }

  Indices view_at(const Indices& row_at) const {
    Indices at = outer_at_;
    at.insert(at.end(), row_at.begin(), row_at.end());
    if (nest_.across) at.emplace_back(neighbour_);
    return at;
  }

  std::vector<std::int64_t> full_box() const {
    return nest_.across ? std::vector<std::int64_t>{block_, lanes_} : std::vector<std::int64_t>{block_};
  }
  std::vector<std::int64_t> row_box() const {
    return nest_.across ? std::vector<std::int64_t>{lanes_} : std::vector<std::int64_t>{};
  }

  // ---- values

  // Values of the current block, by id; cleared for every block.
  using Block = std::map<RowValueId, Expr>;

  Expr evaluate(RowValueId id, Block& block, const Indices& row_at, int stage) {
    Expr& made = row_values_[static_cast<std::size_t>(id)];
    if (made) return made;
    const auto found = block.find(id);
    if (found != block.end()) return found->second;
    const RowValue& value = program_.values[static_cast<std::size_t>(id)];
    require(value.kind != RowValue::Kind::Reduce, "a reduction is read in the pass that makes it");
    Expr expr;
    if (const auto kept = kept_.find(id); kept != kept_.end() && kept->second.stage < stage) {
      expr = kept->second.view.load(kept_at(row_at), full_box());
    } else if (value.kind == RowValue::Kind::Input) {
      expr = load(value, row_at);
    } else {
      Exprs operands;
      for (const RowValueId operand : value.operands)
        operands.push_back(evaluate(operand, block, row_at, stage));
      expr = value.compute(k_, operands);
      if (value.full) expr = k_.broadcast(expr, full_box());
    }
    block[id] = expr;
    return expr;
  }

  Expr load(const RowValue& value, const Indices& row_at) {
    const tile::View& view = inputs_[static_cast<std::size_t>(value.input)];
    const Expr loaded =
        value.full ? view.load(view_at(row_at), full_box()) : view.load(view_at({}), row_box());
    return converted(loaded, compute_dtype(loaded.type().element));
  }

  Indices kept_at(const Indices& row_at) const {
    Indices at{row_at.back()};
    if (nest_.across) at.emplace_back(0);
    return at;
  }

  // Row values that need no pass of their own are made before the pass that uses them, outside its loop.
  void make_row_values(int stage) {
    Block none;
    for (std::size_t i = 0; i < program_.values.size(); ++i) {
      const RowValue& value = program_.values[i];
      if (value.full || value.kind == RowValue::Kind::Reduce || value.stage > stage || row_values_[i])
        continue;
      row_values_[i] = evaluate(static_cast<RowValueId>(i), none, {}, stage);
    }
  }

  // ---- passes

  struct Accumulator {
    RowValueId reduction;
    RowValueId source;
    Combiner combiner;
  };

  std::vector<Accumulator> accumulators(int stage) const {
    std::vector<Accumulator> result;
    for (std::size_t i = 0; i < program_.values.size(); ++i) {
      const RowValue& value = program_.values[i];
      if (value.kind == RowValue::Kind::Reduce && value.stage == stage) {
        result.push_back({static_cast<RowValueId>(i), value.operands[0], value.combiner});
      }
    }
    return result;
  }

  std::vector<std::size_t> full_outputs(int stage) const {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      if (nest_.output_alignment[i] == RowAlignment::Full && stage == std::max(0, program_.stages - 1))
        result.push_back(i);
    }
    return result;
  }

  void run_stage(int stage) {
    make_row_values(stage);
    const std::vector<Accumulator> sums = accumulators(stage);
    declare_kept(stage);
    Exprs initial;
    for (const Accumulator& sum : sums) initial.push_back(identity(sum));
    Exprs totals = over_row(initial, [&](const Indices& row_at, const Exprs& carried) {
      Block block;
      Exprs next;
      for (std::size_t i = 0; i < sums.size(); ++i) {
        // What does not vary along the row is still reduced once for each of its elements.
        Expr source = k_.broadcast(evaluate(sums[i].source, block, row_at, stage), full_box());
        if (!whole_) source = masked(source, row_at, sums[i].combiner);
        next.push_back(combine(sums[i].combiner, carried[i],
                               converted(k_.reduce(sums[i].combiner, source, 0), total_dtype(sums[i]))));
      }
      for (auto& [id, kept] : kept_) {
        if (kept.stage == stage) kept.view.store(kept_at(row_at), evaluate(id, block, row_at, stage));
      }
      for (const std::size_t output : full_outputs(stage)) {
        store(output, evaluate(program_.outputs[output], block, row_at, stage), view_at(row_at), full_box());
      }
      return next;
    });
    for (std::size_t i = 0; i < sums.size(); ++i)
      row_values_[static_cast<std::size_t>(sums[i].reduction)] = converted(totals[i], source_dtype(sums[i]));
    make_row_values(stage + 1);
  }

  // Calls `body` for each block of the row, or once where the row is one tile.
  Exprs over_row(const Exprs& initial, const std::function<Exprs(const Indices&, const Exprs&)>& body) {
    if (whole_) return body({Index(0)}, initial);
    return over_axis(nest_.outer, {}, initial, body);
  }

  Exprs over_axis(std::size_t axis, const Indices& at, const Exprs& carried,
                  const std::function<Exprs(const Indices&, const Exprs&)>& body) {
    const bool last = axis + 1 == nest_.space.rank();
    return k_.loop(0, extent_of(axis), last ? block_ : 1, carried, [&](Expr index, const Exprs& inner) {
      Indices next = at;
      next.emplace_back(index);
      return last ? body(next, inner) : over_axis(axis + 1, next, inner, body);
    });
  }

  Expr masked(Expr source, const Indices& row_at, Combiner combiner) {
    const Expr left = extent_of(nest_.space.rank() - 1) - row_at.back().expr;
    return k_.mask(source, 0, left, identity_value(combiner, source.type().element));
  }

  static double identity_value(Combiner combiner, DType dtype) {
    switch (combiner) {
      case Combiner::Prod:
        return 1;
      case Combiner::Max:
        return lowest(dtype);
      case Combiner::Min:
        return highest(dtype);
      default:
        return 0;
    }
  }

  static double lowest(DType dtype) {
    if (is_float(dtype)) return -std::numeric_limits<double>::infinity();
    return is_signed_integer(dtype) ? -std::ldexp(1.0, bits(dtype) - 1) : 0;
  }
  static double highest(DType dtype) {
    if (is_float(dtype)) return std::numeric_limits<double>::infinity();
    return std::ldexp(1.0, is_signed_integer(dtype) ? bits(dtype) - 1 : bits(dtype));
  }

  DType source_dtype(const Accumulator& sum) const {
    return program_.values[static_cast<std::size_t>(sum.source)].dtype;
  }

  // The sums of a long row's blocks are added in f64: in f32 a row of 10^6 elements would lose three digits.
  DType total_dtype(const Accumulator& sum) const {
    const DType dtype = source_dtype(sum);
    return !whole_ && dtype == DType::F32 && sum.combiner == Combiner::Sum ? DType::F64 : dtype;
  }

  Expr converted(Expr value, DType dtype) {
    return value.type().element == dtype ? value : k_.cast(value, dtype);
  }

  Expr identity(const Accumulator& sum) {
    const DType dtype = total_dtype(sum);
    const double value = identity_value(sum.combiner, dtype);
    return nest_.across ? k_.full(dtype, row_box(), value) : k_.constant(dtype, value);
  }

  Expr combine(Combiner combiner, Expr carried, Expr next) {
    switch (combiner) {
      case Combiner::Prod:
        return carried * next;
      case Combiner::Max:
        return max(carried, next);
      case Combiner::Min:
        return min(carried, next);
      default:
        return carried + next;
    }
  }

  // ---- values kept from pass to pass in local memory

  struct Kept {
    tile::View view;
    int stage = 0;
  };

  // A costly full value of this pass that a later pass reads too.
  void declare_kept(int stage) {
    if (!keep_ || whole_) return;
    for (std::size_t i = 0; i < program_.values.size(); ++i) {
      const RowValue& value = program_.values[i];
      const auto id = static_cast<RowValueId>(i);
      if (!value.full || !value.costly || value.kind != RowValue::Kind::Compute || value.stage != stage ||
          kept_.count(id))
        continue;
      if (!computed_in(id, stage) || !read_after(id, stage)) continue;
      Indices extents{extent_of(nest_.space.rank() - 1)};
      if (nest_.across) extents.emplace_back(lanes_);
      kept_[id] = {k_.local(value.dtype, extents, kKeptRow), stage};
    }
  }

  // True if a reduction of this pass needs the value.
  bool computed_in(RowValueId id, int stage) const {
    for (const Accumulator& sum : accumulators(stage)) {
      if (depends(sum.source, id)) return true;
    }
    return false;
  }

  // True if a value of a later pass has it as a direct operand.
  bool read_after(RowValueId id, int stage) const {
    for (const RowValue& value : program_.values) {
      const bool later = value.stage > stage && value.full;
      if (later && std::find(value.operands.begin(), value.operands.end(), id) != value.operands.end())
        return true;
    }
    return std::find(program_.outputs.begin(), program_.outputs.end(), id) != program_.outputs.end() &&
           stage + 1 < program_.stages;
  }

  bool depends(RowValueId on, RowValueId id) const {
    if (on == id) return true;
    const RowValue& value = program_.values[static_cast<std::size_t>(on)];
    return std::any_of(value.operands.begin(), value.operands.end(),
                       [&](RowValueId operand) { return depends(operand, id); });
  }

  // ---- outputs

  void store(std::size_t output, Expr value, const Indices& at, const std::vector<std::int64_t>& box) {
    const DType dtype = problem_.graph.value(problem_.graph.outputs[output]).dtype;
    if (value.type().element != dtype) value = k_.cast(value, dtype);
    outputs_[output].store(at, box.empty() ? value : k_.broadcast(value, box));
  }

  void store_row_outputs() {
    Block none;
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      if (nest_.output_alignment[i] == RowAlignment::Full) continue;
      store(i, evaluate(program_.outputs[i], none, {}, program_.stages), view_at({}), row_box());
    }
  }

  const Problem& problem_;
  const Nest& nest_;
  std::int64_t block_, lanes_;
  bool whole_, keep_;
  ProgramBuilder program_builder_;
  ProgramBuilder::Launch launch_;
  tile::KernelBuilder& k_;
  RowProgram program_;
  std::vector<tile::View> inputs_, outputs_;
  std::map<std::size_t, Expr> scalars_;
  Indices outer_at_;
  Expr neighbour_;
  std::vector<Expr> row_values_;  // values one a row that exist already
  std::map<RowValueId, Kept> kept_;
};

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  const RowSpace space = *row_space(problem);
  const Nest nest = nest_of(problem, space);
  return RowKernel(problem, space, nest, parameters).build();
}

}  // namespace

extern const Template rows_template;
const Template rows_template{.name = "rows",
                             .version = 1,
                             .refuses = refuses,
                             .variants = variants,
                             .build = build,
                             .samples = rows_samples};

}  // namespace kiln::templates
