// Translators: ai.onnx.ml without its trees. Attributes are f32, and so are results; an input of f64 is
// computed in f64 before it becomes f32.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontend/onnx/classifier.h"
#include "frontend/onnx/translators.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

// Integers as f32; f32 and f64 stay.
ValueId as_float(Translation& node, ValueId x) {
  return is_float(node.dtype(x)) ? x : node.add(OpKind::Cast, {x}, to(DType::F32));
}

ValueId vector(Translation& node, DType type, std::span<const double> values) {
  return node.numbers(type, {static_cast<std::int64_t>(values.size())}, values);
}

// The smallest integer that is greater than `threshold` minus one, as a constant of an integer type: for
// integers, x > threshold means the same as x > floor(threshold).
ValueId integer_threshold(Translation& node, DType type, double threshold) {
  const double low = type == DType::I32 ? std::numeric_limits<std::int32_t>::min() : -0x1p63;
  const double high = type == DType::I32 ? std::numeric_limits<std::int32_t>::max() : 0x1p62;
  const auto floor = static_cast<std::int64_t>(std::clamp(std::floor(threshold), low, high));
  const ValueId constant = node.integer(floor);
  return type == DType::I64 ? constant : node.add(OpKind::Cast, {constant}, to(type));
}

// An ArgMax over the columns that drops them.
Attributes row_wise() { return {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}}; }

// x [N, K] * transposed weights [M, K] + offsets [M].
ValueId affine(Translation& node, ValueId x, std::span<const double> weights, std::int64_t outputs,
               const std::optional<std::vector<double>>& offsets) {
  const DType type = node.dtype(x);
  const std::int64_t features = static_cast<std::int64_t>(weights.size()) / outputs;
  const ValueId matrix = node.numbers(type, {outputs, features}, weights);
  ValueId bias;
  if (offsets && !offsets->empty()) bias = vector(node, type, *offsets);
  return node.add(OpKind::Gemm, {x, matrix, bias}, {{"transB", std::int64_t{1}}});
}

std::optional<std::int64_t> known_features(Translation& node) {
  const auto& shape = node.graph.value(node.input(0)).shape;
  if (!shape || shape->empty() || !shape->back().is_constant()) return std::nullopt;
  return shape->back().constant();
}

// x, where one row without an axis of rows gets one.
ValueId with_rows(Translation& node, ValueId x) {
  const auto rank = node.rank(x);
  if (rank == 1) return node.add(OpKind::Unsqueeze, {x, node.integers({0})});
  if (rank == 0) node.invalid("its input is a scalar");
  if (rank) return x;
  // The shape with a 1 before it, from the 1 on if there is one axis.
  const ValueId shape = node.add(OpKind::Shape, {x}), one = node.integers({1});
  const ValueId longer = node.add(OpKind::Concat, {one, shape}, {{"axis", std::int64_t{0}}});
  const ValueId count = node.add(OpKind::Reshape, {node.add(OpKind::Size, {shape}), one});
  const ValueId start = node.add(OpKind::Min, {node.add(OpKind::Sub, {count, one}), one});
  const ValueId end = node.integers({std::numeric_limits<std::int64_t>::max()});
  return node.add(OpKind::Reshape, {x, node.add(OpKind::Slice, {longer, start, end, node.integers({0})})},
                  {{"allowzero", std::int64_t{1}}});
}

void check_divides(Translation& node, std::size_t coefficients, std::int64_t rows) {
  if (rows < 1 || coefficients == 0 || static_cast<std::int64_t>(coefficients) % rows != 0) {
    node.invalid(fmt::format("{} coefficients cannot be {} rows", coefficients, rows));
  }
}

std::vector<double> take_required(Translation& node, std::string_view name) {
  auto values = node.take_numbers(name);
  if (!values || values->empty()) node.invalid(fmt::format("attribute '{}' is missing", name));
  return std::move(*values);
}

}  // namespace

// Indices into the last axis.
void array_feature_extractor(Translation& node) {
  const ValueId x = with_rows(node, node.input(0));
  const ValueId indices = node.add(OpKind::Reshape, {node.input(1), node.integers({-1})});
  node.finish(OpKind::Gather, {x, indices}, {{"axis", std::int64_t{-1}}});
}

void binarizer(Translation& node) {
  const ValueId x = node.input(0);
  const DType type = node.dtype(x);
  const double threshold = node.take_number("threshold", 0);
  const ValueId bound =
      is_integer(type) ? integer_threshold(node, type, threshold) : node.scalar(type, threshold);
  node.finish(OpKind::Cast, {node.add(OpKind::Greater, {x, bound})}, to(type));
}

void category_mapper(Translation& node) {
  const auto words = node.take_texts("cats_strings");
  const auto numbers = node.take_integers("cats_int64s");
  if (!words || !numbers) node.invalid("it needs both cats_strings and cats_int64s");
  const Tensor strings = Tensor::from(DType::String, {static_cast<std::int64_t>(words->size())},
                                      std::span<const std::string>(*words));
  const Tensor integers = Tensor::from_integers(*numbers);
  const std::string word = node.take_text("default_string", "_Unused");
  const std::int64_t number = node.take_integer("default_int64", -1);
  if (node.dtype(node.input(0)) == DType::String) {
    node.attributes = {{"keys", strings}, {"values", integers}, {"fallback", Tensor::from_integer(number)}};
  } else {
    node.attributes = {{"keys", integers},
                       {"values", strings},
                       {"fallback", Tensor::from(DType::String, {}, std::span(&word, 1))}};
  }
  node.finish(OpKind::LabelEncoder, {node.input(0)});
}

// Columns side by side. Those of input i are cut, or filled up with zeros, to inputdimensions[i].
void feature_vectorizer(Translation& node) {
  const auto widths = node.take_integers("inputdimensions");
  if (widths && widths->size() != node.inputs.size()) {
    node.invalid(fmt::format("{} inputs have {} inputdimensions", node.inputs.size(), widths->size()));
  }
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    ValueId x = with_rows(node, node.input(i));
    if (node.dtype(x) != DType::F32) x = node.add(OpKind::Cast, {x}, to(DType::F32));
    const auto& shape = node.graph.value(x).shape;
    if (widths && (!shape || shape->back() != graph::Dim((*widths)[i]))) {
      const std::int64_t width = (*widths)[i];
      if (width < 0) node.invalid(fmt::format("inputdimensions has the entry {}", width));
      x = node.add(OpKind::Pad, {x, node.integers({0, 0, 0, width})});
      x = node.add(OpKind::Slice, {x, node.integers({0}), node.integers({width}), node.integers({1})});
    }
    parts.push_back(x);
  }
  node.finish(OpKind::Concat, std::move(parts), {{"axis", std::int64_t{1}}});
}

void imputer(Translation& node) {
  const ValueId x = node.input(0);
  const DType type = node.dtype(x);
  const auto floats = node.take_numbers("imputed_value_floats");
  const auto integers = node.take_integers("imputed_value_int64s");
  const double replaced_float = node.take_number("replaced_value_float", 0);
  const std::int64_t replaced_integer = node.take_integer("replaced_value_int64", 0);
  const auto known = known_features(node);
  const auto check = [&](std::size_t count) {
    if (count != 1 && known && static_cast<std::int64_t>(count) != *known) {
      node.invalid(
          fmt::format("got {} imputed values for {} features, expected 1 or {}", count, *known, *known));
    }
  };
  const auto one_or_all = [&](std::size_t count) {
    return count == 1 ? Extents() : Extents{static_cast<std::int64_t>(count)};
  };
  if (is_float(type)) {
    if (!floats || floats->empty()) node.invalid("attribute 'imputed_value_floats' is missing");
    check(floats->size());
    const ValueId replaced = std::isnan(replaced_float)
                                 ? node.add(OpKind::IsNaN, {x})
                                 : node.add(OpKind::Equal, {x, node.scalar(type, replaced_float)});
    return node.finish(OpKind::Where, {replaced, node.numbers(type, one_or_all(floats->size()), *floats), x});
  }
  if (!integers || integers->empty()) node.invalid("attribute 'imputed_value_int64s' is missing");
  check(integers->size());
  const auto constant = [&](Tensor tensor) {
    const ValueId value = node.graph.add_constant(std::move(tensor));
    return type == DType::I64 ? value : node.add(OpKind::Cast, {value}, to(type));
  };
  const ValueId values = constant(Tensor::from_integers(*integers).reshaped(one_or_all(integers->size())));
  const ValueId replaced = node.add(OpKind::Equal, {x, constant(Tensor::from_integer(replaced_integer))});
  node.finish(OpKind::Where, {replaced, values, x});
}

// Version 1: the number of each string, or the string of each number.
void label_encoder_1(Translation& node) {
  const auto words = node.take_texts("classes_strings");
  if (!words) node.invalid("attribute 'classes_strings' is missing");
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < words->size(); ++i) numbers.push_back(static_cast<std::int64_t>(i));
  node.attributes["cats_strings"] = *words;
  node.attributes["cats_int64s"] = numbers;
  category_mapper(node);
}

// Since version 2 keys and values are lists of one type each, since version 4 also tensors.
void label_encoder(Translation& node) {
  const auto given = [&](const std::string& what) {
    std::optional<Tensor> found = node.take_tensor(what + "_tensor");
    const auto set = [&](Tensor tensor) {
      if (found) node.invalid(fmt::format("its {} are given twice", what));
      found = std::move(tensor);
    };
    if (const auto words = node.take_texts(what + "_strings")) {
      set(Tensor::from(DType::String, {static_cast<std::int64_t>(words->size())},
                       std::span<const std::string>(*words)));
    }
    if (const auto integers = node.take_integers(what + "_int64s")) set(Tensor::from_integers(*integers));
    if (const auto numbers = node.take_numbers(what + "_floats")) {
      const std::vector<float> floats(numbers->begin(), numbers->end());
      set(Tensor::from(DType::F32, {static_cast<std::int64_t>(floats.size())}, std::span(floats)));
    }
    if (!found) node.invalid(fmt::format("it has no {}", what));
    return *found;
  };
  const Tensor keys = given("keys"), values = given("values");
  const std::int64_t integer = node.take_integer("default_int64", -1);
  const auto number = static_cast<float>(node.take_number("default_float", -0.0));
  const std::string word = node.take_text("default_string", "_Unused");
  std::optional<Tensor> fallback = node.take_tensor("default_tensor");
  if (!fallback) {
    switch (values.dtype()) {
      case DType::String:
        fallback = Tensor::from(DType::String, {}, std::span(&word, 1));
        break;
      case DType::I16: {
        const std::int16_t narrow = static_cast<std::int16_t>(integer);
        fallback = Tensor::from(DType::I16, {}, std::span(&narrow, 1));
        break;
      }
      case DType::I32: {
        const std::int32_t narrow = static_cast<std::int32_t>(integer);
        fallback = Tensor::from(DType::I32, {}, std::span(&narrow, 1));
        break;
      }
      case DType::F32:
        fallback = Tensor::from(DType::F32, {}, std::span(&number, 1));
        break;
      case DType::F64: {
        const double wide = number;
        fallback = Tensor::from(DType::F64, {}, std::span(&wide, 1));
        break;
      }
      default:
        fallback = Tensor::from_integer(integer);
    }
  }
  node.attributes = {{"keys", keys}, {"values", values}, {"fallback", *fallback}};
  node.finish(OpKind::LabelEncoder, {node.input(0)});
}

void linear_classifier(Translation& node) {
  const std::vector<double> coefficients = take_required(node, "coefficients");
  const auto intercepts = node.take_numbers("intercepts");
  const std::string transform = take_post_transform(node);
  const ClassLabels labels(node, "classlabels_ints");
  node.drop({"multi_class"});
  std::int64_t outputs = labels.count();
  if (intercepts && !intercepts->empty()) {
    outputs = static_cast<std::int64_t>(intercepts->size());
  } else if (const auto features = known_features(node); features && *features > 0) {
    outputs = static_cast<std::int64_t>(coefficients.size()) / *features;
  }
  check_divides(node, coefficients.size(), outputs);
  const ValueId x = sample_matrix(node, static_cast<std::int64_t>(coefficients.size()) / outputs);
  const ValueId scores = affine(node, x, coefficients, outputs, intercepts);
  if (outputs == 1) {
    labels.finish_binary(node, scores, 0);
    return finish_as_float(node, 1,
                           labels.count() == 2 ? two_columns(node, scores, transform, true)
                                               : post_transformed(node, scores, transform));
  }
  if (outputs > labels.count()) {
    node.invalid(fmt::format("it computes {} scores and has {} labels", outputs, labels.count()));
  }
  labels.finish(node, node.add(OpKind::ArgMax, {scores}, row_wise()));
  finish_as_float(node, 1, post_transformed(node, scores, transform));
}

void linear_regressor(Translation& node) {
  const std::vector<double> coefficients = take_required(node, "coefficients");
  const auto intercepts = node.take_numbers("intercepts");
  const std::int64_t targets = node.take_integer("targets", 1);
  const std::string transform = take_post_transform(node);
  check_divides(node, coefficients.size(), targets);
  const ValueId x = sample_matrix(node, static_cast<std::int64_t>(coefficients.size()) / targets);
  finish_as_float(node, 0,
                  post_transformed(node, affine(node, x, coefficients, targets, intercepts), transform));
}

// Rows divided by their greatest element, the sum of absolute values, or the root of the sum of squares;
// where that is zero they stay.
void normalizer(Translation& node) {
  const ValueId x = as_float(node, node.input(0));
  const std::string norm = node.take_text("norm", "MAX");
  const OpKind kind = norm == "MAX"  ? OpKind::ReduceMax
                      : norm == "L1" ? OpKind::ReduceL1
                      : norm == "L2" ? OpKind::ReduceL2
                                     : OpKind::Identity;
  if (kind == OpKind::Identity) node.invalid(fmt::format("norm is '{}', expected MAX, L1 or L2", norm));
  const ValueId size = node.add(kind, {x, node.integers({-1})});
  const ValueId is_zero = node.add(OpKind::Equal, {size, node.scalar(node.dtype(x), 0)});
  const ValueId divisor = node.add(OpKind::Where, {is_zero, node.scalar(node.dtype(x), 1), size});
  finish_as_float(node, 0, node.add(OpKind::Div, {x, divisor}));
}

void scaler(Translation& node) {
  ValueId x = as_float(node, node.input(0));
  const DType type = node.dtype(x);
  const auto operand = [&](std::string_view name, OpKind kind) {
    const auto values = node.take_numbers(name);
    if (!values || values->empty()) return;
    const ValueId constant =
        values->size() == 1 ? node.scalar(type, values->front()) : vector(node, type, *values);
    x = node.add(kind, {x, constant});
  };
  operand("offset", OpKind::Sub);
  operand("scale", OpKind::Mul);
  finish_as_float(node, 0, x);
}

// Without support vectors the coefficients are rows of a linear model, one for each class; of two classes the
// second is taken wherever a score is high enough, as in ONNX Runtime.
void svm_classifier(Translation& node) {
  const std::vector<double> coefficients = take_required(node, "coefficients");
  const std::vector<double> rho = take_required(node, "rho");
  const std::string transform = take_post_transform(node);
  const ClassLabels labels(node, "classlabels_ints");
  const auto sizes = node.take_integers("vectors_per_class");
  const auto vectors = node.take_numbers("support_vectors");
  if (!sizes || std::all_of(sizes->begin(), sizes->end(), [](std::int64_t size) { return size == 0; })) {
    check_divides(node, coefficients.size(), labels.count());
    const ValueId x = sample_matrix(node, static_cast<std::int64_t>(coefficients.size()) / labels.count());
    const std::vector<double> offsets(static_cast<std::size_t>(labels.count()), rho[0]);
    const ValueId scores = affine(node, x, coefficients, labels.count(), offsets);
    ValueId best = node.add(OpKind::ArgMax, {scores}, row_wise());
    if (labels.count() == 2) {
      const bool positive =
          std::all_of(coefficients.begin(), coefficients.end(), [](double c) { return c >= 0; });
      const ValueId highest =
          node.add(OpKind::ReduceMax, {scores, node.integers({1})}, {{"keepdims", std::int64_t{0}}});
      const ValueId second = node.add(positive ? OpKind::GreaterOrEqual : OpKind::Greater,
                                      {highest, node.scalar(node.dtype(scores), positive ? 0.5 : 0)});
      best = node.add(OpKind::Where, {second, node.integer(1), best});
    }
    labels.finish(node, best);
    return finish_as_float(node, 1, post_transformed(node, scores, transform));
  }
  if (static_cast<std::int64_t>(sizes->size()) != labels.count() || !vectors) {
    node.invalid(fmt::format("it has {} labels, support vectors of {} classes and {} numbers in them",
                             labels.count(), sizes->size(), vectors ? vectors->size() : 0));
  }
  std::int64_t count = 0;
  for (const std::int64_t size : *sizes) count += std::clamp<std::int64_t>(size, 0, std::int64_t{1} << 31);
  const ValueId x = sample_matrix(node, static_cast<std::int64_t>(vectors->size()) / count);
  node.attributes["coefficients"] = coefficients;
  node.attributes["rho"] = rho;
  node.attributes["support_vectors"] = *vectors;
  node.attributes["vectors_per_class"] = *sizes;
  const auto probabilities = node.attributes.find("prob_a");
  const bool pairwise =
      probabilities == node.attributes.end() || probabilities->second == Attribute(std::vector<double>());
  const std::vector<ValueId> result =
      node.add_many(OpKind::SVMClassifier, {x}, std::move(node.attributes), 2);
  labels.finish(node, result[0]);
  finish_as_float(node, 1,
                  pairwise && labels.count() == 2
                      ? two_columns(node, result[1], transform, transform != "NONE")
                      : post_transformed(node, result[1], transform));
}

// Without support vectors the coefficients are those of a linear model.
void svm_regressor(Translation& node) {
  const std::vector<double> coefficients = take_required(node, "coefficients");
  const std::vector<double> rho = take_required(node, "rho");
  const std::int64_t supports = node.take_integer("n_supports", 0);
  const auto vectors = node.take_numbers("support_vectors");
  const bool one_class = node.take_integer("one_class", 0) != 0;
  const std::string transform = take_post_transform(node);
  ValueId y;
  if (supports > 0) {
    if (!vectors) node.invalid("attribute 'support_vectors' is missing");
    const ValueId x = sample_matrix(node, static_cast<std::int64_t>(vectors->size()) / supports);
    node.attributes["coefficients"] = coefficients;
    node.attributes["rho"] = rho;
    node.attributes["support_vectors"] = *vectors;
    node.attributes["n_supports"] = supports;
    y = node.add(OpKind::SVMRegressor, {x}, std::move(node.attributes));
  } else {
    const ValueId x = sample_matrix(node, static_cast<std::int64_t>(coefficients.size()));
    y = affine(node, x, coefficients, 1, std::vector<double>{rho[0]});
  }
  if (one_class) {
    const DType type = node.dtype(y);
    const ValueId inside = node.add(OpKind::Greater, {y, node.scalar(type, 0)});
    y = node.add(OpKind::Where, {inside, node.scalar(type, 1), node.scalar(type, -1)});
  }
  finish_as_float(node, 0, post_transformed(node, y, transform));
}

// The values of a map, ascending by key, or each at the place that its key says.
void cast_map(Translation& node) {
  const std::string target = node.take_text("cast_to", "TO_FLOAT"),
                    form = node.take_text("map_form", "DENSE");
  const std::int64_t places = node.take_integer("max_map", 1);
  if (target != "TO_FLOAT" && target != "TO_STRING" && target != "TO_INT64") {
    node.invalid(fmt::format("cast_to is '{}', expected TO_FLOAT, TO_STRING or TO_INT64", target));
  }
  if (form != "DENSE" && form != "SPARSE")
    node.invalid(fmt::format("map_form is '{}', expected DENSE or SPARSE", form));
  const DType type = target == "TO_FLOAT" ? DType::F32 : target == "TO_STRING" ? DType::String : DType::I64;
  const std::vector<ValueId> entries = node.add_many(OpKind::MapEntries, {node.input(0)},
                                                     {{"keys", static_cast<std::int64_t>(DType::I64)}}, 2);
  ValueId values = node.add(OpKind::Cast, {entries[1]}, to(type));
  if (form == "SPARSE") {
    constexpr std::int64_t kMost = std::int64_t{1} << 28;
    if (places < 1 || places > kMost)
      node.invalid(fmt::format("max_map is {}, expected 1 to {}", places, kMost));
    const ValueId empty = node.graph.add_constant(Tensor(type, {places}));
    values = node.add(OpKind::ScatterElements, {empty, entries[0], values}, {{"axis", std::int64_t{0}}});
  }
  node.finish(OpKind::Unsqueeze, {values, node.integers({0})});
}

// The value of each word of a vocabulary, 0 or an empty string where the map has none. Keys outside the
// vocabulary land behind it and are cut off.
void dict_vectorizer(Translation& node) {
  const auto words = node.take_texts("string_vocabulary");
  const auto numbers = node.take_integers("int64_vocabulary");
  if (words.has_value() == numbers.has_value())
    node.invalid("it needs one of string_vocabulary and int64_vocabulary");
  const Tensor vocabulary = words ? Tensor::from(DType::String, {static_cast<std::int64_t>(words->size())},
                                                 std::span<const std::string>(*words))
                                  : Tensor::from_integers(*numbers);
  const std::int64_t count = vocabulary.elements();
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back(i);
  const ValueId map = node.input(0);
  const std::vector<ValueId> entries =
      node.add_many(OpKind::MapEntries, {map}, {{"keys", static_cast<std::int64_t>(vocabulary.dtype())}}, 2);
  const ValueId place = node.add(OpKind::LabelEncoder, {entries[0]},
                                 {{"keys", vocabulary},
                                  {"values", Tensor::from_integers(places)},
                                  {"fallback", Tensor::from_integer(count)}});
  const ValueId empty = node.graph.add_constant(Tensor(node.dtype(map), {count + 1}));
  const ValueId filled =
      node.add(OpKind::ScatterElements, {empty, place, entries[1]}, {{"axis", std::int64_t{0}}});
  const ValueId kept = node.add(OpKind::Slice, {filled, node.integers({0}), node.integers({count})});
  node.finish(OpKind::Unsqueeze, {kept, node.integers({0})});
}

}  // namespace kiln::frontend::translate
