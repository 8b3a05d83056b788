// Sums of products over labelled axes. One nest over all labels, however many operands there are.
#include "ir/graph/einsum.h"

#include <algorithm>
#include <map>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

// Axes of the nest: first those of the result, then those that are summed.
struct Contraction {
  Extents extents;
  std::size_t outer;             // axes of the result
  std::vector<Extents> strides;  // for each operand, by axis of the nest
};

Contraction describe(const Call& call) {
  const std::size_t operands = call.inputs.size();
  const graph::EinsumEquation equation = graph::parse_einsum(text(call.node, "equation"), operands);
  std::map<int, std::int64_t> extents;
  std::vector<std::map<int, std::int64_t>> strides(operands);
  std::size_t widest = 0;
  for (std::size_t i = 0; i < operands; ++i) {
    const Extents& shape = call.input(i).extents();
    const std::size_t ellipsis = graph::ellipsis_axes(equation.inputs[i], shape.size());
    widest = std::max(widest, ellipsis);
    const std::vector<int> labels = graph::einsum_labels(equation.inputs[i], ellipsis);
    const Extents dense = dense_strides(shape);
    std::map<int, std::int64_t> own;
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      const auto [at, inserted] = own.emplace(labels[axis], shape[axis]);
      if (!inserted && at->second != shape[axis]) {
        throw_caller(ErrorCode::ShapeMismatch, "axes of one letter have the extents {} and {} in an input",
                     at->second, shape[axis]);
      }
      strides[i][labels[axis]] += dense[axis];
    }
    for (const auto& [label, extent] : own) {
      std::int64_t& common = extents.emplace(label, extent).first->second;
      if (common == 1) common = extent;
      if (extent != common && extent != 1) {
        throw_caller(ErrorCode::ShapeMismatch, "axes of one letter have the extents {} and {}", common,
                     extent);
      }
      if (extent == 1) strides[i][label] = 0;
    }
  }
  Contraction nest;
  std::vector<int> order = graph::einsum_labels(equation.output, widest);
  nest.outer = order.size();
  for (const auto& [label, extent] : extents) {
    if (std::find(order.begin(), order.end(), label) == order.end()) order.push_back(label);
  }
  nest.strides.resize(operands);
  for (const int label : order) {
    nest.extents.push_back(extents.at(label));
    for (std::size_t i = 0; i < operands; ++i) {
      const auto found = strides[i].find(label);
      nest.strides[i].push_back(found == strides[i].end() ? 0 : found->second);
    }
  }
  return nest;
}

// Offsets of all operands at a position of axes [first, last) of a nest.
class Walker {
 public:
  Walker(const Contraction& nest, std::size_t first, std::size_t last)
      : nest_(nest), first_(first), index_(last - first), offsets_(nest.strides.size()) {}

  const Extents& offsets() const { return offsets_; }

  void start_at(std::int64_t position) {
    std::fill(offsets_.begin(), offsets_.end(), 0);
    for (std::size_t k = index_.size(); k-- > 0; position /= nest_.extents[first_ + k]) {
      index_[k] = position % nest_.extents[first_ + k];
      for (std::size_t i = 0; i < offsets_.size(); ++i)
        offsets_[i] += index_[k] * nest_.strides[i][first_ + k];
    }
  }

  void advance() {
    for (std::size_t k = index_.size(); k-- > 0;) {
      const std::size_t axis = first_ + k;
      const bool wraps = ++index_[k] == nest_.extents[axis];
      const std::int64_t steps = wraps ? 1 - nest_.extents[axis] : 1;
      for (std::size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += steps * nest_.strides[i][axis];
      if (!wraps) return;
      index_[k] = 0;
    }
  }

 private:
  const Contraction& nest_;
  std::size_t first_;
  Extents index_, offsets_;
};

}  // namespace

void einsum(Call& call) {
  const DType dtype = call.input(0).dtype();
  if (computed_in_f32(call, dtype, einsum)) return;
  const Contraction nest = describe(call);
  const Extents result(nest.extents.begin(), nest.extents.begin() + static_cast<std::ptrdiff_t>(nest.outer));
  expect_bounded(result, "the result");
  const std::int64_t terms = element_count(std::span(nest.extents).subspan(nest.outer));
  Tensor& y = call.output(0, dtype, result);
  const std::size_t operands = call.inputs.size();
  dispatch(decltype(join(WideFloats{}, Integers{})){}, dtype, [&]<typename T>() {
    // Integers wrap.
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
    std::vector<const T*> data;
    for (std::size_t i = 0; i < operands; ++i) {
      if (call.input(i).dtype() != dtype) {
        throw_caller(ErrorCode::TypeMismatch, "inputs must have one type, got {} and {}", name(dtype),
                     name(call.input(i).dtype()));
      }
      data.push_back(call.input(i).as<T>().data());
    }
    T* to = y.as_mutable<T>().data();
    const std::int64_t cost = terms * static_cast<std::int64_t>(2 * operands);
    for_range(call, y.elements(), cost, [&](std::int64_t begin, std::int64_t end) {
      Walker outer(nest, 0, nest.outer), inner(nest, nest.outer, nest.extents.size());
      outer.start_at(begin);
      for (std::int64_t i = begin; i < end; ++i, outer.advance()) {
        Sum sum{};
        if (terms > 0) inner.start_at(0);
        for (std::int64_t term = 0; term < terms; ++term, inner.advance()) {
          Sum factor{1};
          for (std::size_t k = 0; k < operands; ++k) {
            factor *= static_cast<Sum>(data[k][outer.offsets()[k] + inner.offsets()[k]]);
          }
          sum += factor;
        }
        to[i] = static_cast<T>(sum);
      }
    });
  });
}

}  // namespace kiln::reference
