// Sequences and optionals.
#include <utility>
#include <vector>

#include "ir/base/errors.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/pieces.h"

namespace kiln::reference {
namespace {

// `position` counted from the front; one more is allowed when inserting.
std::size_t normalized_position(std::int64_t position, std::size_t size, bool inserting) {
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t highest = inserting ? count : count - 1;
  if (position < -count || position > highest) {
    throw_caller(ErrorCode::IndexOutOfRange, "position {} is outside a sequence of {}", position, size);
  }
  return static_cast<std::size_t>(position < 0 ? position + count : position);
}

std::vector<Tensor> tensors_of(const Sequence& sequence) {
  std::vector<Tensor> tensors;
  for (const Datum& item : sequence.items) tensors.push_back(item.tensor());
  return tensors;
}

void set(Call& call, Datum datum) {
  if (call.outputs.empty()) call.outputs.resize(1);
  call.outputs[0] = std::move(datum);
}

}  // namespace

void sequence_construct(Call& call) {
  Sequence sequence{call.input(0).dtype(), {}};
  for (std::size_t i = 0; i < call.inputs.size(); ++i) sequence.items.emplace_back(call.input(i));
  set(call, std::move(sequence));
}

void sequence_empty(Call& call) {
  set(call, Sequence{call.promoted(static_cast<DType>(integer(call.node, "dtype"))), {}});
}

void sequence_insert(Call& call) {
  Sequence sequence = call.datum(0).sequence();
  const Tensor& tensor = call.input(1);
  if (tensor.dtype() != sequence.dtype) {
    throw_caller(ErrorCode::TypeMismatch, "cannot insert a tensor of {} into a sequence of {}",
                 name(tensor.dtype()), name(sequence.dtype));
  }
  const std::size_t size = sequence.items.size();
  const std::size_t at =
      call.has_input(2) ? normalized_position(to_integer(call.input(2)), size, /*inserting=*/true) : size;
  sequence.items.insert(sequence.items.begin() + static_cast<std::ptrdiff_t>(at), tensor);
  set(call, std::move(sequence));
}

void sequence_erase(Call& call) {
  Sequence sequence = call.datum(0).sequence();
  const std::int64_t position = call.has_input(1) ? to_integer(call.input(1)) : -1;
  const std::size_t at = normalized_position(position, sequence.items.size(), /*inserting=*/false);
  sequence.items.erase(sequence.items.begin() + static_cast<std::ptrdiff_t>(at));
  set(call, std::move(sequence));
}

void sequence_at(Call& call) {
  const Sequence& sequence = call.datum(0).sequence();
  const Tensor& item =
      sequence.items[normalized_position(to_integer(call.input(1)), sequence.items.size(), false)].tensor();
  call.output_view(0, item, item.extents());
}

void sequence_length(Call& call) {
  call.output(0, DType::I64, {}).as_mutable<std::int64_t>()[0] =
      static_cast<std::int64_t>(call.datum(0).sequence().items.size());
}

void split_to_sequence(Call& call) {
  const Tensor& x = call.input(0);
  const std::size_t axis = normalized_axis(integer(call.node, "axis"), x.rank());
  const std::int64_t extent = x.extents()[axis];
  Sequence sequence{x.dtype(), {}};
  if (!call.has_input(1)) {
    const bool keep = integer(call.node, "keepdims") != 0;
    for (std::int64_t i = 0; i < extent; ++i) {
      sequence.items.emplace_back(keep ? piece(call, x, axis, i, 1) : slice_at(call, x, axis, i));
    }
    return set(call, std::move(sequence));
  }
  std::vector<std::int64_t> sizes = call.input(1).to_integers();
  if (call.input(1).rank() == 0) {  // pieces of one size, the last one may be smaller
    const std::int64_t size = sizes[0];
    if (size <= 0) throw_caller(ErrorCode::InvalidArgument, "cannot split into pieces of {}", size);
    sizes.clear();
    for (std::int64_t start = 0; start < extent; start += size)
      sizes.push_back(std::min(size, extent - start));
  }
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > extent - start) {
      throw_caller(ErrorCode::ShapeMismatch, "cannot split {} off the remaining {}", size, extent - start);
    }
    sequence.items.emplace_back(piece(call, x, axis, start, size));
    start += size;
  }
  if (start != extent) {
    throw_caller(ErrorCode::ShapeMismatch, "the pieces have {} of the extent {}", start, extent);
  }
  set(call, std::move(sequence));
}

void concat_from_sequence(Call& call) {
  const std::vector<Tensor> tensors = tensors_of(call.datum(0).sequence());
  if (tensors.empty()) throw_caller(ErrorCode::InvalidArgument, "cannot join an empty sequence");
  const bool new_axis = integer(call.node, "new_axis") != 0;
  const std::size_t axis =
      normalized_axis(integer(call.node, "axis"), tensors[0].rank() + (new_axis ? 1 : 0));
  if (!new_axis) return set(call, joined(call, tensors, axis));
  for (const Tensor& tensor : tensors) expect_extents("a tensor to stack", tensor, tensors[0].extents());
  set(call, stacked(call, tensors, axis));
}

void optional(Call& call) { set(call, call.has_input(0) ? call.datum(0) : Datum()); }

void optional_has_element(Call& call) {
  call.output(0, DType::I1, {}).as_mutable<std::uint8_t>()[0] =
      call.has_input(0) && call.datum(0).has_value() ? 1 : 0;
}

void optional_get_element(Call& call) {
  const Datum& datum = call.datum(0);
  if (!datum.has_value()) throw_caller(ErrorCode::InvalidArgument, "the optional has no value");
  if (!datum.is_tensor()) return set(call, datum);
  call.output_view(0, datum.tensor(), datum.tensor().extents());
}

}  // namespace kiln::reference
