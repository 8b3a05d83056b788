// scatter: a copy of the data into which updates are written where indices say, or combined with what is
// there. Updates that may meet in one element are applied one after the other, in row-major order; other axes
// run side by side.
#include <algorithm>
#include <span>
#include <vector>

#include "ir/base/errors.h"
#include "ir/templates/axiswise_copy.h"
#include "ir/templates/chosen_places.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/samples.h"
#include "ir/templates/template.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Node;
using graph::OpKind;
using graph::Problem;
using tile::Expr;
using tile::Indices;

// The updates: axes that run side by side, then those along which order counts. Operands: places, updates,
// and the row-major order.
struct Nest {
  ChosenPlaces places;
  IterationSpace space;
  std::size_t side_by_side = 0;  // axes

  std::size_t lanes() const { return side_by_side - 1; }
};

Nest nest_of(const Problem& problem) {
  const graph::Value& updates = problem.graph.value(problem.graph.node(problem.root).inputs[2]);
  Nest nest{.places = chosen_places(problem), .space = {}};
  std::vector<std::vector<Dim>> strides = place_strides(nest.places);
  strides.push_back(updates.layout->strides);
  strides.push_back(graph::dense_strides(nest.places.shape));
  std::vector<std::vector<int>> groups(2);
  for (std::size_t i = 0; i < nest.places.shape.size(); ++i) {
    const int axis = static_cast<int>(i);
    const bool in_order = std::ranges::binary_search(nest.places.ordered, axis);
    groups[in_order ? 1 : 0].push_back(axis);
  }
  std::vector<int> counts;
  nest.space = collapse_groups(nest.places.shape, strides, strides.size() - 1, groups, counts);
  nest.side_by_side = static_cast<std::size_t>(counts[0]);
  return nest;
}

// The data, copied whole.
IterationSpace copied_space(const Problem& problem) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  const graph::Value& data = graph.value(node.inputs[0]);
  const std::vector<std::vector<Dim>> strides{data.layout->strides,
                                              graph.value(node.outputs[0]).layout->strides};
  return collapse(*data.shape, strides, 1);
}

std::optional<std::string> refuses(const Problem& problem, const Target&) {
  const Graph& graph = problem.graph;
  const Node& node = graph.node(problem.root);
  if (node.op != OpKind::ScatterElements && node.op != OpKind::ScatterND) return "its root is no scatter";
  if (auto reason = why_no_places(problem)) return reason;
  if (graph.value(node.inputs[0]).dtype == DType::I1 && text(node, "reduction") != "none")
    return "a reduction of booleans";
  const Nest nest = nest_of(problem);
  if (nest.side_by_side > std::size_t{tile::kMaxGridRank} ||
      copied_space(problem).rank() > std::size_t{tile::kMaxGridRank})
    return "more axes than a grid has";
  // Besides the axes of its box, the view of the places has that of a run.
  if (nest.space.rank() + 1 > std::size_t{tile::kMaxViewRank}) return "more axes than a view has";
  return std::nullopt;
}

std::vector<VariantChoice> variants(const Problem& problem, const Target&) {
  const Nest nest = nest_of(problem);
  const Dim& lanes = nest.space.extents[nest.lanes()];
  const CopyBlock copied = copy_block(copied_space(problem));
  const std::int64_t wide = lanes.is_constant()
                                ? std::clamp<std::int64_t>(lanes.constant(), 1, kCopiedElements / 4)
                                : kCopiedElements / 4;
  return {{.name = "default",
           .guard = std::nullopt,
           .parameters = {{"inner", copied.inner}, {"rows", copied.rows}, {"lanes", wide}}}};
}

void copy_data(ProgramBuilder& program, const Problem& problem, const Parameters& parameters) {
  const IterationSpace space = copied_space(problem);
  const std::vector<std::int64_t> box = copy_box(space.rank(), parameters);
  const Node& node = problem.graph.node(problem.root);
  ProgramBuilder::Launch launch(program, "copy");
  const tile::View from = launch.input("x", program.input(*input_number(problem, node.inputs[0])),
                                       space.extents, space.strides[0]);
  const tile::View to = launch.output("y", program.output(0), space.extents, space.strides[1]);
  const Indices at = blocked_grid(launch.builder(), to, box);
  to.store(at, from.load(at, box));
  const std::int64_t elements = parameters.at("rows") * parameters.at("inner");
  launch.cost(elements, elements * 8);
  program.add(launch);
}

Expr combined(const std::string& reduction, Expr old, Expr update) {
  if (reduction == "add") return old + update;
  if (reduction == "mul") return old * update;
  if (reduction == "max") return max(old, update);
  require(reduction == "min", "a scatter has reduction {}", reduction);
  return min(old, update);
}

class ScatterKernel {
 public:
  ScatterKernel(ProgramBuilder& program, const Problem& problem, const Parameters& parameters)
      : program_(program),
        node_(problem.graph.node(problem.root)),
        nest_(nest_of(problem)),
        launch_(program, "scatter"),
        k_(launch_.builder()),
        table_(program, launch_, problem, nest_.places, nest_.space, nest_.lanes()),
        box_(nest_.space.rank(), 1) {
    const IterationSpace& space = nest_.space;
    box_[nest_.lanes()] = parameters.at("lanes");
    updates_ = launch_.input("u", program.input(*input_number(problem, node_.inputs[2])), space.extents,
                             space.strides[space.strides.size() - 2]);
    const PlaceTable::Target& target = table_.target();
    target_ = launch_.inout("y", program.output(0), target.extents, target.strides, target.offset);
  }

  void build() {
    const IterationSpace& space = nest_.space;
    Indices at = blocked_grid(k_, updates_, std::span(box_).first(nest_.side_by_side));
    table_.reserve(box_);
    apply_in_order(at);
    Dim elements = box_[nest_.lanes()];
    for (std::size_t axis = nest_.side_by_side; axis < space.rank(); ++axis)
      elements = elements * space.extents[axis];
    launch_.cost(elements * 16, elements * 16);
    program_.add(launch_);
  }

 private:
  void apply_in_order(Indices& at) {
    if (at.size() == nest_.space.rank()) return apply(at);
    const auto axis = static_cast<int>(at.size());
    k_.loop(0, updates_.dim(axis), 1, [&](Expr index) {
      at.emplace_back(index);
      apply_in_order(at);
      at.pop_back();
    });
  }

  void apply(const Indices& at) {
    const tile::View chosen = table_.choose(target_, at);
    const Indices from = table_.from(at);
    const std::vector<std::int64_t> extents = table_.extents();
    Expr update = k_.reshape(updates_.load(at, box_), extents);
    if (const std::string& reduction = text(node_, "reduction"); reduction != "none") {
      const DType dtype = update.type().element;
      const auto in = [&](DType to, Expr x) { return x.type().element == to ? x : k_.cast(x, to); };
      const DType wide = compute_dtype(dtype);
      const Expr old = chosen.load(from, extents);
      update = in(dtype, combined(reduction, in(wide, old), in(wide, update)));
    }
    chosen.store(from, update);
  }

  ProgramBuilder& program_;
  const Node& node_;
  Nest nest_;
  ProgramBuilder::Launch launch_;
  tile::KernelBuilder& k_;
  PlaceTable table_;
  std::vector<std::int64_t> box_;
  tile::View updates_, target_;
};

Program build(const Problem& problem, const Parameters& parameters, const Target&) {
  ProgramBuilder program(problem);
  copy_data(program, problem, parameters);
  ScatterKernel(program, problem, parameters).build();
  return program.finish();
}

}  // namespace

extern const Template scatter_template;
const Template scatter_template{.name = "scatter",
                                .version = 1,
                                .refuses = refuses,
                                .variants = variants,
                                .build = build,
                                .samples = scatter_samples};

}  // namespace kiln::templates
