#include "ir/graph/infer.h"

#include <algorithm>
#include <utility>

namespace kiln::graph {

bool Inference::has_input(std::size_t operand) const {
  return operand < node_.inputs.size() && node_.inputs[operand];
}

bool Inference::has_output(std::size_t operand) const {
  return operand < node_.outputs.size() && node_.outputs[operand];
}

const std::optional<Shape>& Inference::shape_of_rank(std::size_t operand, std::size_t low,
                                                     std::size_t high) const {
  const std::optional<Shape>& result = shape(operand);
  if (result && (result->size() < low || result->size() > high)) {
    const std::string expected = low == high        ? fmt::format("rank {}", low)
                                 : high == SIZE_MAX ? fmt::format("rank {} or more", low)
                                                    : fmt::format("rank {} to {}", low, high);
    fail(ErrorCode::ShapeMismatch, "input {} has shape {}, expected {}", operand, text(*result), expected);
  }
  return result;
}

std::optional<std::vector<Dim>> Inference::elements(std::size_t operand) const {
  if (!has_input(operand)) return std::nullopt;
  return input(operand).elements;
}

std::optional<std::vector<std::int64_t>> Inference::constants(std::size_t operand) const {
  if (!has_input(operand) || !input(operand).elements) return std::nullopt;
  std::vector<std::int64_t> result;
  for (const Dim& element : *input(operand).elements) {
    if (!element.is_constant()) return std::nullopt;
    result.push_back(element.constant());
  }
  return result;
}

void Inference::set_shape(std::size_t operand, std::optional<Shape> shape) {
  if (!has_output(operand)) return;
  if (shape) {
    for (const Dim& extent : *shape) {
      if (extent.is_constant() && extent.constant() < 0) {
        fail(ErrorCode::ShapeMismatch, "output {} would have the shape {}; extents cannot be negative",
             operand, text(*shape));
      }
    }
  }
  output(operand).shape = std::move(shape);
}

void Inference::set_dtype(std::size_t operand, DType dtype) {
  if (has_output(operand)) output(operand).dtype = dtype;
}

Dim Inference::fresh(std::size_t operand, std::size_t axis) {
  if (!has_output(operand)) return 0;
  const SymbolSource source{SymbolSource::Kind::NodeResult, node_.outputs[operand],
                            static_cast<std::int64_t>(axis)};
  return Dim::symbol(graph_.add_symbol({{}, source}));
}

Shape Inference::fresh_shape(std::size_t operand, std::size_t rank) {
  Shape result;
  for (std::size_t axis = 0; axis < rank; ++axis) result.push_back(fresh(operand, axis));
  return result;
}

std::size_t Inference::normalized(std::int64_t axis, std::size_t rank, std::string_view what) const {
  const auto limit = static_cast<std::int64_t>(rank);
  if (axis < -limit || axis >= limit) {
    fail(ErrorCode::InvalidModel, "{} is {}, expected a number from {} to {}", what, axis, -limit, limit - 1);
  }
  return static_cast<std::size_t>(axis < 0 ? axis + limit : axis);
}

std::set<std::size_t> Inference::axis_set(std::span<const std::int64_t> axes, std::size_t rank) const {
  std::set<std::size_t> result;
  for (const std::int64_t axis : axes) {
    if (!result.insert(normalized(axis, rank, "an entry of axes")).second) {
      fail(ErrorCode::InvalidModel, "axes lists {} twice", axis);
    }
  }
  return result;
}

std::size_t Inference::normalize_axis(std::size_t rank) {
  const std::size_t axis = normalized(integer(node_, "axis"), rank);
  node_.attributes["axis"] = static_cast<std::int64_t>(axis);
  return axis;
}

DType Inference::dtype_attribute(std::string_view attribute) const {
  const std::int64_t number = integer(node_, attribute);
  if (number < 0 || number > static_cast<std::int64_t>(DType::String)) {
    fail(ErrorCode::InvalidModel, "attribute \"{}\" is {}, which is not the number of a type", attribute,
         number);
  }
  return static_cast<DType>(number);
}

Dim Inference::same(const Dim& a, const Dim& b, std::string_view what) {
  if (a == b) return a;
  const Dim difference = a - b;
  if (difference.is_constant()) {
    fail(ErrorCode::ShapeMismatch, "{}: got {} and {}, expected the same", what, text(a), text(b));
  }
  add_guard(a, b, what);
  return b.is_constant() ? b : a;
}

Dim Inference::broadcast_extents(const Dim& a, const Dim& b) {
  for (const auto& [constant, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!constant.is_constant() || constant.constant() == 1) continue;
    broadcasts_to(other, constant, "broadcast");
    return constant;
  }
  return broadcast(a, b);
}

Shape Inference::broadcast_shapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const std::size_t offset = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    result[offset + i] = broadcast_extents(longer[offset + i], shorter[i]);
  }
  return result;
}

void Inference::broadcasts_to(const Dim& got, const Dim& extent, std::string_view what) {
  if (got == extent || got == Dim(1)) return;
  if ((got - extent).is_constant() && got.is_constant()) {
    fail(ErrorCode::ShapeMismatch, "{}: got the extent {}, expected {} or 1", what, text(got), text(extent));
  }
  add_guard(broadcast(got, extent), extent, what);
}

void Inference::at_least(const Dim& got, const Dim& low, std::string_view what) {
  if ((got - low).is_at_least(0)) return;
  if ((low - got).is_at_least(1)) {
    fail(ErrorCode::ShapeMismatch, "{}: got {}, expected at least {}", what, text(got), text(low));
  }
  add_guard(got, low, what, Guard::Relation::AtLeast);
}

// Layers that repeat assume the same over and over: what one of the last Guards says is not said again.
void Inference::add_guard(const Dim& left, const Dim& right, std::string_view what,
                          Guard::Relation relation) {
  constexpr std::size_t kLookBack = 64;
  std::vector<Guard>& guards = graph_.guards;
  for (std::size_t i = guards.size(); i-- > 0 && guards.size() - i <= kLookBack;) {
    if (guards[i].left == left && guards[i].right == right && guards[i].relation == relation) return;
  }
  guards.push_back(
      {left, right, fmt::format("node \"{}\" ({}): {}", node_.name, name(node_.op), what), relation});
}

std::string Inference::text(const Dim& dim) const {
  return dim.to_string([this](SymbolId id) { return graph_.symbol_name(id); });
}

std::string Inference::text(const Shape& shape) const {
  std::string result = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) result += ", ";
    result += text(shape[i]);
  }
  return result + "]";
}

}  // namespace kiln::graph
