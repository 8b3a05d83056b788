// If, Loop, Scan and SequenceMap. What a body does is up to Call::run_body; the order of its inputs is that
// of ir/graph/infer_control.cc.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/errors.h"
#include "kernels_ref/arguments.h"
#include "kernels_ref/bodies.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/pieces.h"

namespace kiln::reference {
namespace {

using graph::Graph;

// The number of the iteration, or whether it goes on: of one element and the rank that the body has for it.
template <typename T>
Tensor counter(const Graph& body, std::size_t input, DType dtype, T value) {
  const auto& shape = body.value(body.inputs[input]).shape;
  Tensor tensor(dtype, Extents(shape ? shape->size() : 0, 1));
  tensor.as_mutable<T>()[0] = value;
  return tensor;
}

// What iterations gave for one output, side by side along a new axis.
Tensor gathered(const Call& call, std::vector<Tensor> slices, std::int64_t axis, bool backwards) {
  for (const Tensor& slice : slices) {
    expect_extents("what an iteration gives for a scanned output", slice, slices[0].extents());
  }
  if (backwards) std::reverse(slices.begin(), slices.end());
  return stacked(call, slices, normalized_axis(axis, slices[0].rank() + 1));
}

// The same after no iteration; `first` are the extents of what the first one would have taken.
Tensor gathered_none(const Call& call, const Graph& body, std::size_t output, const InputExtents& first,
                     std::int64_t axis_given) {
  Extents extents = extents_without_running(body, output, first);
  const std::size_t axis = normalized_axis(axis_given, static_cast<std::int64_t>(extents.size()) + 1);
  extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  return {call.promoted(body.value(body.outputs[output]).dtype), std::move(extents)};
}

void append_extents(InputExtents& extents, std::span<const Datum> data) {
  for (const Datum& datum : data)
    extents.push_back(datum.is_tensor() ? std::optional(datum.tensor().extents()) : std::nullopt);
}

Extents without_axis(Extents extents, std::size_t axis) {
  extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(axis));
  return extents;
}

std::int64_t entry(const Call& call, std::string_view attribute, std::size_t index) {
  if (!graph::has(call.node, attribute)) return 0;
  const auto list = integers(call.node, attribute);
  return index < list.size() ? list[index] : 0;
}

// One walk of a Scan along its scanned inputs.
class ScanWalk {
 public:
  ScanWalk(const Call& call, const Graph& body, std::size_t states)
      : call_(call), body_(body), states_(states), slices_(body.outputs.size() - states) {}

  // `given`: states, then scanned inputs. Returns states, then scanned outputs.
  std::vector<Datum> run(std::vector<Datum> given, std::span<const Datum> captures,
                         std::optional<std::int64_t> length) {
    std::vector<Datum> state(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(states_));
    std::vector<Tensor> scanned;
    std::vector<std::size_t> axes;
    for (std::size_t i = states_; i < given.size(); ++i) {
      scanned.push_back(given[i].tensor());
      const std::int64_t axis = entry(call_, "scan_input_axes", i - states_);
      axes.push_back(normalized_axis(axis, scanned.back().rank()));
      const std::int64_t extent = scanned.back().extents()[axes.back()];
      if (!length) length = extent;
      if (extent < *length || (extent > *length && !clipped_)) {
        throw_caller(ErrorCode::ShapeMismatch, "scanned inputs have {} and {} slices, expected the same",
                     *length, extent);
      }
    }
    for (std::int64_t step = 0; step < *length; ++step) {
      std::vector<Datum> inputs = std::move(state);
      for (std::size_t i = 0; i < scanned.size(); ++i) {
        const bool backwards = entry(call_, "scan_input_directions", i) != 0;
        inputs.emplace_back(slice_at(call_, scanned[i], axes[i], backwards ? *length - 1 - step : step));
      }
      inputs.insert(inputs.end(), captures.begin(), captures.end());
      std::vector<Datum> outputs = reference::run(call_, body_, std::move(inputs));
      for (std::size_t i = 0; i < slices_.size(); ++i) slices_[i].push_back(outputs[states_ + i].tensor());
      outputs.resize(states_);
      state = std::move(outputs);
    }
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const std::int64_t axis = entry(call_, "scan_output_axes", i);
      const bool backwards = entry(call_, "scan_output_directions", i) != 0;
      state.emplace_back(*length > 0 ? gathered(call_, std::move(slices_[i]), axis, backwards)
                                     : gathered_none(call_, body_, states_ + i,
                                                     first_inputs(state, scanned, axes, captures), axis));
    }
    return state;
  }

  // Extents of what an iteration takes.
  InputExtents first_inputs(std::span<const Datum> states, std::span<const Tensor> scanned,
                            std::span<const std::size_t> axes, std::span<const Datum> captures) const {
    InputExtents extents;
    append_extents(extents, states.first(states_));
    for (std::size_t i = 0; i < scanned.size(); ++i) {
      extents.emplace_back(without_axis(scanned[i].extents(), axes[i]));
    }
    append_extents(extents, captures);
    return extents;
  }

  // Inputs may have more slices than the length says.
  void allow_longer() { clipped_ = true; }

 private:
  const Call& call_;
  const Graph& body_;
  std::size_t states_;
  std::vector<std::vector<Tensor>> slices_;
  bool clipped_ = false;
};

// Zeros behind the slices of axis 0, up to `length` of them.
Tensor padded(const Call& call, const Tensor& tensor, std::int64_t length) {
  if (tensor.extents()[0] == length) return tensor;
  Extents rest = tensor.extents();
  rest[0] = length - rest[0];
  const Tensor parts[] = {tensor, Tensor(tensor.dtype(), rest)};
  return joined(call, parts, 0);
}

// Scan of opset 8: one walk for each element of a batch.
void scan_batch(Call& call, const Graph& body, std::size_t states) {
  const std::size_t given = body.inputs.size() - body.captures;
  const std::int64_t batch = call.input(1).extents().empty() ? 0 : call.input(1).extents()[0];
  const std::vector<std::int64_t> lengths = optional_integers(call, 0);
  if (call.has_input(0) && static_cast<std::int64_t>(lengths.size()) != batch) {
    throw_caller(ErrorCode::ShapeMismatch, "sequence_lens has {} entries for a batch of {}", lengths.size(),
                 batch);
  }
  std::int64_t longest = 0;
  for (std::size_t i = 1; i <= given; ++i) {
    expect_rank("an input of a batched Scan", call.input(i), i > states ? 2 : 1);
    if (call.input(i).extents()[0] != batch) {
      throw_caller(ErrorCode::ShapeMismatch, "inputs of a batched Scan have batches of {} and {}", batch,
                   call.input(i).extents()[0]);
    }
    if (i > states) longest = call.input(i).extents()[1];
  }
  std::vector<Datum> captures;
  append(captures, call, 1 + given, call.inputs.size());
  std::vector<std::vector<Tensor>> results(body.outputs.size());
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Datum> inputs;
    for (std::size_t i = 1; i <= given; ++i) inputs.emplace_back(slice_at(call, call.input(i), 0, b));
    std::optional<std::int64_t> length;
    if (call.has_input(0)) {
      length = lengths[static_cast<std::size_t>(b)];
      if (*length < 0 || *length > longest) {
        throw_caller(ErrorCode::InvalidArgument, "sequence_lens has {}, expected 0 to {}", *length, longest);
      }
    }
    ScanWalk walk(call, body, states);
    walk.allow_longer();
    const std::vector<Datum> outputs = walk.run(std::move(inputs), captures, length);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& output = outputs[i].tensor();
      results[i].push_back(i < states ? output : padded(call, output, longest));
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (call.wants(i) && batch > 0) call.outputs[i] = gathered(call, std::move(results[i]), 0, false);
  }
  if (batch > 0) return;
  InputExtents first;
  for (std::size_t i = 1; i <= given; ++i) {
    first.emplace_back(without_axis(call.input(i).extents(), 0));
    if (i > states) first.back()->erase(first.back()->begin());
  }
  append_extents(first, captures);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!call.wants(i)) continue;
    Extents extents = extents_without_running(body, i, first);
    if (i >= states) extents.insert(extents.begin(), longest);
    extents.insert(extents.begin(), 0);
    call.outputs[i] = Tensor(call.promoted(body.value(body.outputs[i]).dtype), std::move(extents));
  }
}

}  // namespace

void branch(Call& call) {
  const Graph& otherwise = body_of(call, "else_branch");
  const bool condition = to_integer(call.input(0)) != 0;
  const Graph& body = condition ? body_of(call, "then_branch") : otherwise;
  std::vector<Datum> inputs;
  const std::size_t first = condition ? 1 + otherwise.captures : 1;
  append(inputs, call, first, first + body.captures);
  call.outputs = run(call, body, std::move(inputs));
}

void loop(Call& call) {
  const Graph& body = body_of(call, "body");
  const std::size_t carried = body.inputs.size() - body.captures - 2;
  const std::int64_t most = call.has_input(0) ? to_integer(call.input(0)) : INT64_MAX;
  bool condition = !call.has_input(1) || to_integer(call.input(1)) != 0;
  std::vector<Datum> state, captures;
  append(state, call, 2, 2 + carried);
  append(captures, call, 2 + carried, call.inputs.size());
  std::vector<std::vector<Tensor>> slices(body.outputs.size() - 1 - carried);
  for (std::int64_t step = 0; condition && step < most; ++step) {
    std::vector<Datum> inputs = {counter(body, 0, DType::I64, step),
                                 counter<std::uint8_t>(body, 1, DType::I1, condition ? 1 : 0)};
    std::move(state.begin(), state.end(), std::back_inserter(inputs));
    inputs.insert(inputs.end(), captures.begin(), captures.end());
    std::vector<Datum> outputs = run(call, body, std::move(inputs));
    condition = to_integer(outputs[0].tensor()) != 0;
    for (std::size_t i = 0; i < slices.size(); ++i) slices[i].push_back(outputs[1 + carried + i].tensor());
    outputs.resize(1 + carried);
    outputs.erase(outputs.begin());
    state = std::move(outputs);
  }
  InputExtents first = {Extents(), Extents()};
  append_extents(first, state);
  append_extents(first, captures);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    state.emplace_back(slices[i].empty() ? gathered_none(call, body, 1 + carried + i, first, 0)
                                         : gathered(call, std::move(slices[i]), 0, false));
  }
  call.outputs = std::move(state);
}

void scan(Call& call) {
  const Graph& body = body_of(call, "body");
  const std::size_t given = body.inputs.size() - body.captures;
  const std::size_t states = given - static_cast<std::size_t>(integer(call.node, "num_scan_inputs"));
  if (integer(call.node, "batched") != 0) return scan_batch(call, body, states);
  std::vector<Datum> inputs, captures;
  append(inputs, call, 0, given);
  append(captures, call, given, call.inputs.size());
  call.outputs = ScanWalk(call, body, states).run(std::move(inputs), captures, std::nullopt);
}

void sequence_map(Call& call) {
  const Graph& body = body_of(call, "body");
  const std::size_t given = body.inputs.size() - body.captures;
  const Sequence& walked = call.datum(0).sequence();
  std::vector<Sequence> results(body.outputs.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].dtype = call.promoted(body.value(body.outputs[i]).dtype);
  }
  for (std::size_t step = 0; step < walked.items.size(); ++step) {
    std::vector<Datum> inputs = {walked.items[step]};
    for (std::size_t i = 1; i < given; ++i) {
      const Datum& other = call.datum(i);
      if (!other.is_sequence()) {
        inputs.push_back(other);
        continue;
      }
      if (other.sequence().items.size() != walked.items.size()) {
        throw_caller(ErrorCode::ShapeMismatch, "sequences have {} and {} tensors, expected the same",
                     walked.items.size(), other.sequence().items.size());
      }
      inputs.push_back(other.sequence().items[step]);
    }
    append(inputs, call, given, call.inputs.size());
    std::vector<Datum> outputs = run(call, body, std::move(inputs));
    for (std::size_t i = 0; i < results.size(); ++i) results[i].items.push_back(std::move(outputs[i]));
  }
  for (std::size_t i = 0; i < results.size(); ++i) call.outputs[i] = std::move(results[i]);
}

}  // namespace kiln::reference
