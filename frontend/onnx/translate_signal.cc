// Translators: Fourier transforms, windows and complex numbers.
#include <numbers>

#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

std::int64_t number_of(DType dtype) { return static_cast<std::int64_t>(dtype); }

// a0 - a1 cos(t) + a2 cos(2 t) for `size` angles t from 0 on, over a whole turn if the window is periodic,
// else up to and with the turn. Computed in f64; one element is the first of any window.
void cosine_window(Translation& node, double a0, double a1, double a2) {
  const DType type = require_dtype(node.take_integer("output_datatype", onnx::TensorProto::FLOAT),
                                   "attribute 'output_datatype'");
  const bool periodic = node.take_integer("periodic", 1) != 0;
  const auto constant = [&](double value) { return node.scalar(DType::F64, value); };
  const ValueId none = node.integers(std::span<const std::int64_t>());
  const ValueId scalar = node.add(OpKind::Reshape, {node.input(0), none});
  const ValueId size = node.add(OpKind::Cast, {scalar}, {{"to", number_of(DType::F64)}});
  const ValueId steps = node.add(OpKind::Range, {constant(0), size, constant(1)});
  const ValueId turn =
      periodic ? size : node.add(OpKind::Max, {node.add(OpKind::Sub, {size, constant(1)}), constant(1)});
  const ValueId angles =
      node.add(OpKind::Div, {node.add(OpKind::Mul, {steps, constant(2 * std::numbers::pi)}), turn});
  const ValueId once = node.add(OpKind::Mul, {node.add(OpKind::Cos, {angles}), constant(a1)});
  ValueId window = node.add(OpKind::Sub, {constant(a0), once});
  if (a2 != 0) {
    const ValueId doubled = node.add(OpKind::Cos, {node.add(OpKind::Mul, {angles, constant(2)})});
    window = node.add(OpKind::Add, {window, node.add(OpKind::Mul, {doubled, constant(a2)})});
  }
  node.finish(OpKind::Cast, {window}, {{"to", number_of(type)}});
}

// Transforms over one axis, the last of the signal, without a factor.
void expect_plain_transform(Translation& node) {
  node.expect_integer("signal_ndim", 1, 1);
  node.expect_integer("normalized", 0, 0);
}

// (a + ib) (c + id), or (a + ib) (c - id); the last axis has the two parts.
void complex_product(Translation& node, bool conjugate) {
  const DType type = node.dtype(node.input(0));
  const bool half = type == DType::F16 || type == DType::BF16;
  const auto parts = [&](std::size_t index) {
    ValueId value = node.input(index);
    if (half) value = node.add(OpKind::Cast, {value}, {{"to", number_of(DType::F32)}});
    return node.add_many(OpKind::Split, {value},
                         {{"axis", std::int64_t{-1}}, {"num_outputs", std::int64_t{2}}}, 2);
  };
  const std::vector<ValueId> x = parts(0), y = parts(1);
  const auto product = [&](std::size_t i, std::size_t k) { return node.add(OpKind::Mul, {x[i], y[k]}); };
  const ValueId real = node.add(conjugate ? OpKind::Add : OpKind::Sub, {product(0, 0), product(1, 1)});
  const ValueId imaginary = node.add(conjugate ? OpKind::Sub : OpKind::Add, {product(1, 0), product(0, 1)});
  if (!half) return node.finish(OpKind::Concat, {real, imaginary}, {{"axis", std::int64_t{-1}}});
  const ValueId wide = node.add(OpKind::Concat, {real, imaginary}, {{"axis", std::int64_t{-1}}});
  node.finish(OpKind::Cast, {wide}, {{"to", number_of(type)}});
}

}  // namespace

// The axis was an attribute.
void dft_17(Translation& node) {
  const ValueId axis = node.integer(node.take_integer("axis", 1));
  node.finish(OpKind::DFT, {node.input(0), node.optional_input(1), axis});
}

void mel_weight_matrix(Translation& node) {
  const std::int64_t type = node.take_integer("output_datatype", onnx::TensorProto::FLOAT);
  node.attributes["dtype"] = number_of(require_dtype(type, "attribute 'output_datatype'"));
  node.finish(OpKind::MelWeightMatrix, node.inputs);
}

void hann_window(Translation& node) { cosine_window(node, 0.5, 0.5, 0); }
void hamming_window(Translation& node) { cosine_window(node, 25.0 / 46, 21.0 / 46, 0); }
void blackman_window(Translation& node) { cosine_window(node, 0.42, 0.5, 0.08); }

void rfft(Translation& node) {
  expect_plain_transform(node);
  const std::int64_t onesided = node.take_integer("onesided", 1);
  const ValueId signal = node.add(OpKind::Unsqueeze, {node.input(0), node.integers({-1})});
  node.finish(OpKind::DFT, {signal}, {{"onesided", onesided}});
}

void irfft(Translation& node) {
  expect_plain_transform(node);
  const std::int64_t onesided = node.take_integer("onesided", 1);
  const ValueId signal =
      node.add(OpKind::DFT, {node.input(0)}, {{"onesided", onesided}, {"inverse", std::int64_t{1}}});
  const ValueId real =
      onesided != 0
          ? signal
          : node.add(OpKind::Slice, {signal, node.integers({0}), node.integers({1}), node.integers({-1})});
  node.finish(OpKind::Squeeze, {real, node.integers({-1})}, {});
}

void complex_mul(Translation& node) { complex_product(node, false); }
void complex_mul_conj(Translation& node) { complex_product(node, true); }

}  // namespace kiln::frontend::translate
