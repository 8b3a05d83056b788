// Between maps and tensors.
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

// Places of labels in ascending order. Throws Error (caller, invalid_model) if one is there twice.
template <typename T>
std::vector<std::size_t> ascending(std::span<const T> labels) {
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return labels[a] < labels[b]; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (labels[order[i - 1]] == labels[order[i]])
      throw_caller(ErrorCode::InvalidModel, "the class label '{}' is given twice", labels[order[i]]);
  }
  return order;
}

}  // namespace

void map_entries(Call& call) {
  const Map& map = call.datum(0).map();
  const auto wanted = static_cast<DType>(integer(call.node, "keys"));
  if (map.keys.dtype() != wanted) {
    throw_caller(ErrorCode::TypeMismatch, "the map has keys of {}, expected {}", name(map.keys.dtype()),
                 name(wanted));
  }
  call.output_view(0, map.keys, map.keys.extents());
  call.output_view(1, map.values, map.values.extents());
}

void zip_map(Call& call) {
  const Tensor& x = call.input(0);
  const graph::Node& node = call.node;
  Tensor keys;
  std::vector<std::size_t> order;
  const auto sort_keys = [&]<typename T>(DType dtype, std::span<const T> labels) {
    order = ascending(labels);
    keys = Tensor(dtype, {static_cast<std::int64_t>(labels.size())});
    for (std::size_t i = 0; i < order.size(); ++i) keys.as_mutable<T>()[i] = labels[order[i]];
  };
  if (has(node, "classlabels_strings")) {
    sort_keys(DType::String, texts(node, "classlabels_strings"));
  } else {
    sort_keys(DType::I64, integers(node, "classlabels_int64s"));
  }
  const auto width = static_cast<std::int64_t>(order.size());
  if (x.rank() < 1 || x.rank() > 2 || x.extents().back() != width) {
    throw_caller(ErrorCode::ShapeMismatch, "expected an input of [N, {0}] or [{0}], got {1}", width,
                 to_string(x.extents()));
  }
  const std::int64_t rows = x.rank() == 2 ? x.extents()[0] : 1;
  Sequence sequence{x.dtype(), {}};
  dispatch(WideFloats{}, x.dtype(), [&]<typename T>() {
    for (std::int64_t row = 0; row < rows; ++row) {
      Tensor values(x.dtype(), {width});
      const T* from = x.as<T>().data() + row * width;
      for (std::size_t i = 0; i < order.size(); ++i) values.as_mutable<T>()[i] = from[order[i]];
      sequence.items.emplace_back(Map{keys, std::move(values)});
    }
  });
  if (call.outputs.empty()) call.outputs.resize(1);
  call.outputs[0] = std::move(sequence);
}

}  // namespace kiln::reference
