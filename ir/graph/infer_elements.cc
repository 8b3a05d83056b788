// Shape arithmetic: the elements of small Values computed symbolically, so that chains such as
// Shape -> Gather -> Concat -> Reshape leave nothing to run.
#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/base/checked_math.h"
#include "ir/graph/infer.h"
#include "ir/graph/slice.h"

namespace kiln::graph {
namespace {

using Elements = std::vector<Dim>;
using Index = std::vector<std::int64_t>;

// A small Value whose elements are known, with constant extents.
struct Known {
  Extents extents;
  Elements elements;

  const Dim& at(const Index& index) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < extents.size(); ++i) offset = offset * extents[i] + index[i];
    return elements[static_cast<std::size_t>(offset)];
  }
  // At the index of a result that this one is broadcast to.
  const Dim& at_broadcast(const Index& index) const {
    Index own(extents.size());
    const std::size_t skipped = index.size() - extents.size();
    for (std::size_t i = 0; i < extents.size(); ++i) own[i] = extents[i] == 1 ? 0 : index[skipped + i];
    return at(own);
  }
};

// Element types whose arithmetic on dimensions is that of integers.
bool evaluated(DType dtype) {
  return dtype == DType::I64 || dtype == DType::I32 || dtype == DType::I1 || dtype == DType::F32 ||
         dtype == DType::F64;
}

bool representable(const Dim& element, DType dtype) {
  if (!element.is_constant()) return true;
  const std::int64_t value = element.constant();
  if (dtype == DType::I32) return value >= INT32_MIN && value <= INT32_MAX;
  constexpr std::int64_t kExactF32 = 1 << 24;
  if (dtype == DType::F32) return value >= -kExactF32 && value <= kExactF32;
  return true;
}

std::optional<Extents> constant_extents(const Value& value) {
  if (!value.shape) return std::nullopt;
  Extents result;
  std::int64_t count = 1;
  for (const Dim& extent : *value.shape) {
    if (!extent.is_constant()) return std::nullopt;
    result.push_back(extent.constant());
    const std::optional<std::int64_t> product = checked_multiply(count, extent.constant());
    if (!product || *product > static_cast<std::int64_t>(kMaxKnownElements)) return std::nullopt;
    count = *product;
  }
  return result;
}

std::optional<Known> known(const Inference& op, std::size_t operand) {
  if (!op.has_input(operand) || !op.input(operand).elements) return std::nullopt;
  const std::optional<Extents> extents = constant_extents(op.input(operand));
  if (!extents) return std::nullopt;
  return Known{*extents, *op.input(operand).elements};
}

// `element(index)` for every index of a tensor, row-major; nothing if one is unknown.
std::optional<Elements> for_each_index(const Extents& extents,
                                       const std::function<std::optional<Dim>(const Index&)>& element) {
  Elements result;
  Index index(extents.size(), 0);
  for (std::int64_t left = kiln::element_count(extents); left > 0; --left) {
    std::optional<Dim> value = element(index);
    if (!value) return std::nullopt;
    result.push_back(std::move(*value));
    for (std::size_t i = extents.size(); i-- > 0 && ++index[i] == extents[i];) index[i] = 0;
  }
  return result;
}

std::optional<Dim> truth(bool is_true, bool is_false) {
  if (is_true) return Dim(1);
  if (is_false) return Dim(0);
  return std::nullopt;
}

std::optional<Dim> less(const Dim& a, const Dim& b) {
  return truth((b - a).is_at_least(1), (a - b).is_at_least(0));
}

std::optional<Dim> negated(const std::optional<Dim>& value) {
  if (!value || !value->is_constant()) return std::nullopt;
  return Dim(value->constant() == 0);
}

std::optional<Dim> divide(const Dim& a, const Dim& b, DType dtype) {
  if (b == Dim(0)) return std::nullopt;
  const bool exact = mod(a, b) == Dim(0);
  if (is_float(dtype) && !exact) return std::nullopt;
  // Integer division rounds toward zero, which is down only for what is not negative.
  if (exact || (a.is_at_least(0) && b.is_at_least(0))) return floordiv(a, b);
  if (a.is_constant() && b.is_constant()) return Dim(a.constant() / b.constant());
  return std::nullopt;
}

std::optional<Dim> remainder(const Node& node, const Dim& a, const Dim& b) {
  if (b == Dim(0)) return std::nullopt;
  const bool sign_of_dividend = integer(node, "fmod") != 0;
  if (sign_of_dividend && !(a.is_at_least(0) && b.is_at_least(0))) return std::nullopt;
  return mod(a, b);
}

std::optional<Dim> combine(const Node& node, DType dtype, const Dim& a, const Dim& b) {
  switch (node.op) {
    case OpKind::Add:
    case OpKind::Sum:
    case OpKind::ReduceSum:
      return a + b;
    case OpKind::Sub:
      return a - b;
    case OpKind::Mul:
    case OpKind::ReduceProd:
      return a * b;
    case OpKind::Min:
    case OpKind::ReduceMin:
      return min(a, b);
    case OpKind::Max:
    case OpKind::ReduceMax:
      return max(a, b);
    case OpKind::Div:
      return divide(a, b, dtype);
    case OpKind::Mod:
      return remainder(node, a, b);
    case OpKind::Equal:
      return truth(a == b, (a - b).is_at_least(1) || (b - a).is_at_least(1));
    case OpKind::Less:
      return less(a, b);
    case OpKind::Greater:
      return less(b, a);
    case OpKind::LessOrEqual:
      return negated(less(b, a));
    case OpKind::GreaterOrEqual:
      return negated(less(a, b));
    case OpKind::And:
      return min(a, b);
    case OpKind::Or:
      return max(a, b);
    default:
      return std::nullopt;
  }
}

std::optional<Elements> elementwise(const Inference& op, const Node& node, const Extents& extents) {
  std::vector<Known> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    std::optional<Known> input = known(op, i);
    if (!input) return std::nullopt;
    inputs.push_back(std::move(*input));
  }
  const DType dtype = op.input(0).dtype;
  return for_each_index(extents, [&](const Index& index) {
    std::optional<Dim> result = inputs[0].at_broadcast(index);
    for (std::size_t i = 1; i < inputs.size() && result; ++i) {
      result = combine(node, dtype, *result, inputs[i].at_broadcast(index));
    }
    return result;
  });
}

std::optional<Dim> unary(const Node& node, DType to, const Dim& x) {
  switch (node.op) {
    case OpKind::Neg:
      return Dim(0) - x;
    case OpKind::Abs:
      if (x.is_at_least(0)) return x;
      if (x.is_constant()) return Dim(0) - x;
      return std::nullopt;
    case OpKind::Not:
      return negated(x);
    case OpKind::Cast:
    case OpKind::CastLike:
      if (to != DType::I1) return x;
      return truth(x.is_at_least(1) || (Dim(0) - x).is_at_least(1), x == Dim(0));
    default:  // rounding leaves whole numbers as they are
      return x;
  }
}

std::optional<Elements> where(const Inference& op, const Extents& extents) {
  const std::optional<Known> condition = known(op, 0), x = known(op, 1), y = known(op, 2);
  if (!condition || !x || !y) return std::nullopt;
  return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
    const Dim &chosen = condition->at_broadcast(index), &a = x->at_broadcast(index),
              &b = y->at_broadcast(index);
    if (a == b) return a;
    if (!chosen.is_constant()) return std::nullopt;
    return chosen.constant() != 0 ? a : b;
  });
}

std::optional<Elements> sliced(const Inference& op, const Known& x, const Extents& extents) {
  const std::optional<std::vector<std::int64_t>> starts = op.constants(1), axes = op.constants(3),
                                                 steps = op.constants(4);
  if (!starts || (op.has_input(3) && !axes) || (op.has_input(4) && !steps)) return std::nullopt;
  Index first(x.extents.size(), 0), step(x.extents.size(), 1);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::size_t axis = axes ? op.normalized((*axes)[i], x.extents.size()) : i;
    const std::int64_t extent = x.extents[axis], given = steps ? (*steps)[i] : 1;
    step[axis] = slice_step(given, extent).constant();
    first[axis] = slice_first((*starts)[i], extent, given > 0)->constant();
  }
  return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
    Index source(index.size());
    for (std::size_t i = 0; i < index.size(); ++i) source[i] = first[i] + index[i] * step[i];
    return x.at(source);
  });
}

std::optional<Elements> gathered(const Inference& op, const Node& node, const Known& data,
                                 const Extents& extents) {
  const std::optional<Known> indices = known(op, 1);
  if (!indices) return std::nullopt;
  const auto axis = static_cast<std::size_t>(integer(node, "axis"));
  const std::size_t inner = indices->extents.size();
  return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
    const auto at = [&](std::size_t i) { return index.begin() + static_cast<std::ptrdiff_t>(i); };
    const Dim& chosen = indices->at(Index(at(axis), at(axis + inner)));
    if (!chosen.is_constant()) return std::nullopt;
    const std::int64_t extent = data.extents[axis];
    const std::int64_t position = chosen.constant() < 0 ? chosen.constant() + extent : chosen.constant();
    if (position < 0 || position >= extent) {
      op.fail(ErrorCode::IndexOutOfRange, "index {} is out of range for {} elements", chosen.constant(),
              extent);
    }
    Index source(index.begin(), at(axis));
    source.push_back(position);
    source.insert(source.end(), at(axis + inner), index.end());
    return data.at(source);
  });
}

std::optional<Elements> concatenated(const Inference& op, const Node& node, const Extents& extents) {
  const auto axis = static_cast<std::size_t>(integer(node, "axis"));
  std::vector<Known> parts;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    std::optional<Known> part = known(op, i);
    if (!part) return std::nullopt;
    parts.push_back(std::move(*part));
  }
  return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
    Index source = index;
    std::size_t part = 0;
    for (; source[axis] >= parts[part].extents[axis]; ++part) source[axis] -= parts[part].extents[axis];
    return parts[part].at(source);
  });
}

std::optional<Elements> reduced(const Inference& op, const Node& node, const Known& x,
                                const Extents& extents) {
  if (op.has_input(1) && !op.constants(1)) return std::nullopt;
  if (x.elements.empty() && node.op == OpKind::ReduceProd)
    return Elements(static_cast<std::size_t>(kiln::element_count(extents)), 1);
  if (x.elements.empty()) return std::nullopt;
  // All elements into one, or each for itself; partial reductions are not shape arithmetic.
  if (kiln::element_count(extents) != 1) return std::nullopt;
  Dim result = x.elements[0];
  for (std::size_t i = 1; i < x.elements.size(); ++i)
    result = *combine(node, DType::I64, result, x.elements[i]);
  return Elements{result};
}

std::optional<Elements> range(const Inference& op, const Extents& extents) {
  const std::optional<Known> start = known(op, 0), delta = known(op, 2);
  if (!start || !delta) return std::nullopt;
  return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
    return start->elements[0] + delta->elements[0] * Dim(index[0]);
  });
}

// The elements of output `operand`, whose extents are constant.
std::optional<Elements> evaluate(const Inference& op, const Node& node, std::size_t operand,
                                 const Extents& extents, DType dtype) {
  switch (node.op) {
    case OpKind::Add:
    case OpKind::Sum:
    case OpKind::Sub:
    case OpKind::Mul:
    case OpKind::Div:
    case OpKind::Mod:
    case OpKind::Min:
    case OpKind::Max:
    case OpKind::Equal:
    case OpKind::Less:
    case OpKind::LessOrEqual:
    case OpKind::Greater:
    case OpKind::GreaterOrEqual:
    case OpKind::And:
    case OpKind::Or:
      return elementwise(op, node, extents);
    case OpKind::Where:
      return where(op, extents);
    case OpKind::Concat:
      return concatenated(op, node, extents);
    case OpKind::Range:
      return range(op, extents);
    case OpKind::ConstantOfShape: {
      std::optional<Elements> one = Elements{0};
      if (const auto value = node.attributes.find("value"); value != node.attributes.end()) {
        Graph scratch;
        one = scratch.value(scratch.add_constant(std::get<Tensor>(value->second))).elements;
      }
      if (!one) return std::nullopt;
      return Elements(static_cast<std::size_t>(kiln::element_count(extents)), (*one)[0]);
    }
    default:
      break;
  }
  const std::optional<Known> x = known(op, 0);
  if (!x) return std::nullopt;
  switch (node.op) {
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Not:
    case OpKind::Cast:
    case OpKind::CastLike:
    case OpKind::Floor:
    case OpKind::Ceil:
    case OpKind::Round:
      return for_each_index(extents, [&](const Index& index) { return unary(node, dtype, x->at(index)); });
    case OpKind::Identity:
    case OpKind::Reshape:
    case OpKind::Flatten:
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
      return x->elements;
    case OpKind::Expand:
      return for_each_index(extents,
                            [&](const Index& index) { return std::optional(x->at_broadcast(index)); });
    case OpKind::Transpose: {
      const std::span<const std::int64_t> perm = integers(node, "perm");
      return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
        Index source(index.size());
        for (std::size_t i = 0; i < perm.size(); ++i) source[static_cast<std::size_t>(perm[i])] = index[i];
        return x->at(source);
      });
    }
    case OpKind::Tile:
      return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
        Index source(index.size());
        for (std::size_t i = 0; i < index.size(); ++i) source[i] = index[i] % x->extents[i];
        return x->at(source);
      });
    case OpKind::Split: {
      const auto axis = static_cast<std::size_t>(integer(node, "axis"));
      std::int64_t before = 0;
      for (std::size_t i = 0; i < operand; ++i) {
        const std::optional<Extents> earlier = constant_extents(op.output(i));
        if (!earlier) return std::nullopt;
        before += (*earlier)[axis];
      }
      return for_each_index(extents, [&](const Index& index) -> std::optional<Dim> {
        Index source = index;
        source[axis] += before;
        return x->at(source);
      });
    }
    case OpKind::Slice:
      return sliced(op, *x, extents);
    case OpKind::Gather:
      return gathered(op, node, *x, extents);
    case OpKind::ReduceSum:
    case OpKind::ReduceProd:
    case OpKind::ReduceMin:
    case OpKind::ReduceMax:
      return reduced(op, node, *x, extents);
    default:
      return std::nullopt;
  }
}

}  // namespace

void evaluate_elements(Graph& graph, Node& node) {
  Inference op(graph, node);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i]) continue;
    Value& output = op.output(i);
    if (output.elements || output.constant || !evaluated(output.dtype)) continue;
    const std::optional<Extents> extents = constant_extents(output);
    if (!extents) continue;
    try {
      std::optional<Elements> elements = evaluate(op, node, i, *extents, output.dtype);
      if (!elements || elements->size() != static_cast<std::size_t>(kiln::element_count(*extents))) continue;
      const bool fits = std::all_of(elements->begin(), elements->end(),
                                    [&](const Dim& element) { return representable(element, output.dtype); });
      if (fits) output.elements = std::move(elements);
    } catch (const Error& error) {
      // What cannot be held in a Dim stays unknown.
      if (error.code() != ErrorCode::LimitExceeded) throw;
    }
  }
}

}  // namespace kiln::graph
