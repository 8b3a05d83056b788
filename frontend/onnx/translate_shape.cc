// Translators: views, movement, shapes and constants. Most old forms had attributes for what are inputs now.
#include <algorithm>

#include "frontend/onnx/along_axis.h"
#include "frontend/onnx/shape_nodes.h"
#include "frontend/onnx/tensor_reader.h"
#include "frontend/onnx/translators.h"
#include "ir/base/checked_math.h"
#include "ir/base/errors.h"

namespace kiln::frontend::translate {
namespace {

ValueId absent_if_empty(const Translation& node, ValueId value) {
  if (!value) return value;
  const auto& constant = node.graph.value(value).constant;
  return constant && constant->elements() == 0 ? ValueId::none() : value;
}

ValueId vector_of(Translation& node, const std::vector<double>& values) {
  return node.numbers(DType::F32, {static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

// Squeeze, Unsqueeze and reductions.
void axes_attribute(Translation& node) {
  if (const auto axes = node.take_integers("axes")) {
    node.inputs.resize(1);
    node.inputs.push_back(node.integers(*axes));
  }
  same(node);
}

void reshape_1(Translation& node) {
  node.drop({"consumed_inputs"});
  const auto shape = node.take_integers("shape");
  if (!shape) node.invalid("attribute 'shape' is missing");
  node.finish(OpKind::Reshape, {node.input(0), node.integers(*shape)});
}

void slice_attributes(Translation& node) {
  const auto starts = node.take_integers("starts");
  const auto ends = node.take_integers("ends");
  const auto axes = node.take_integers("axes");
  if (!starts || !ends) node.invalid("attributes 'starts' and 'ends' are required");
  std::vector<ValueId> operands = {node.input(0), node.integers(*starts), node.integers(*ends)};
  if (axes) operands.push_back(node.integers(*axes));
  node.finish(OpKind::Slice, std::move(operands));
}

void pad_attributes(Translation& node) {
  const auto pads = node.take_integers(node.opset == 1 ? "paddings" : "pads");
  if (!pads) node.invalid("the attribute with the pads is missing");
  const ValueId x = node.input(0);
  const ValueId fill = node.scalar(node.dtype(x), node.take_number("value", 0));
  node.finish(OpKind::Pad, {x, node.integers(*pads), fill});
}

void concat_1(Translation& node) {
  node.attributes.try_emplace("axis", std::int64_t{1});
  node.finish(OpKind::Concat, node.inputs);
}

// Up to opset 17 sizes that are not given are equal, and the number of outputs is that of the node's names.
void split(Translation& node) {
  if (const auto sizes = node.take_integers("split")) {
    node.inputs.resize(1);
    node.inputs.push_back(node.integers(*sizes));
  }
  if (!node.has_input(1)) {
    node.attributes.try_emplace("num_outputs", static_cast<std::int64_t>(node.outputs.size()));
  }
  node.finish(OpKind::Split, node.inputs);
}

// Axis `axis` alone is repeated.
void tile_1(Translation& node) {
  const ValueId x = node.input(0);
  const auto vector_of_one = [&](std::size_t index) {
    return node.add(OpKind::Reshape, {cast(node, node.input(index), DType::I64), node.integers({1})});
  };
  const auto ones = [&](ValueId count) {
    return node.add(OpKind::ConstantOfShape, {count},
                    {{"value", Tensor::from_integers(std::vector<std::int64_t>{1})}});
  };
  const ValueId axis = vector_of_one(2);
  const ValueId behind =
      node.add(OpKind::Sub, {node.add(OpKind::Sub, {rank_of(node, x), axis}), node.integers({1})});
  node.finish(OpKind::Tile, {x, joined(node, {ones(axis), vector_of_one(1), ones(behind)}, 0)});
}

void top_k_1(Translation& node) {
  const auto k = node.take_integer("k");
  if (!k) node.invalid("attribute 'k' is missing");
  node.finish(OpKind::TopK, {node.input(0), node.integers({*k})});
}

void scatter(Translation& node) { node.finish(OpKind::ScatterElements, node.inputs); }

void gather_nd_microsoft(Translation& node) {
  if (node.dtype(node.input(1)) != DType::I64) {
    node.inputs[1] = node.add(OpKind::Cast, {node.inputs[1]}, to(DType::I64));
  }
  node.finish(OpKind::GatherND, node.inputs);
}

void expand_dims(Translation& node) {
  const ValueId axis = node.input(1);
  const ValueId wide = node.add(OpKind::Cast, {axis}, to(DType::I64));
  node.finish(OpKind::Unsqueeze, {node.input(0), node.add(OpKind::Reshape, {wide, node.integers({1})})});
}

// Upsample, and Resize of opset 10, which is its copy: coordinates are x / scale. The nearest element is the
// one below where an axis grows, the one above where it shrinks.
void upsample(Translation& node) {
  const ValueId x = node.input(0);
  const std::string mode = node.take_text("mode", "nearest");
  ValueId scales;
  if (node.opset >= 9) {
    scales = node.input(1);
  } else if (const auto values = node.take_numbers("scales")) {
    scales = vector_of(node, *values);
  } else {
    const auto height = node.take_number("height_scale");
    const auto width = node.take_number("width_scale");
    if (!height || !width) node.invalid("the attributes with the scales are missing");
    scales = vector_of(node, {1, 1, *height, *width});
  }
  const auto resize = [&](std::string_view nearest) {
    return Attributes{{"mode", mode == "bilinear" ? "linear" : mode},
                      {"coordinate_transformation_mode", std::string("asymmetric")},
                      {"nearest_mode", std::string(nearest)}};
  };
  std::vector<float> grow, shrink;
  if (const auto& constant = node.graph.value(scales).constant; constant && constant->dtype() == DType::F32) {
    for (const float scale : constant->as<float>()) {
      grow.push_back(std::max(scale, 1.0F));
      shrink.push_back(std::min(scale, 1.0F));
    }
  }
  const bool shrinks = std::any_of(shrink.begin(), shrink.end(), [](float scale) { return scale < 1; });
  const bool grows = std::any_of(grow.begin(), grow.end(), [](float scale) { return scale > 1; });
  if (mode != "nearest" || !shrinks || !grows) {
    return node.finish(OpKind::Resize, {x, ValueId::none(), scales}, resize(shrinks ? "ceil" : "floor"));
  }
  const ValueId larger = vector_of(node, {grow.begin(), grow.end()});
  const ValueId smaller = vector_of(node, {shrink.begin(), shrink.end()});
  const ValueId middle = node.add(OpKind::Resize, {x, ValueId::none(), smaller}, resize("ceil"));
  node.finish(OpKind::Resize, {middle, ValueId::none(), larger}, resize("floor"));
}

// Inputs that are not wanted were given as empty tensors.
void resize(Translation& node) {
  for (std::size_t i = 1; i < node.inputs.size(); ++i) node.inputs[i] = absent_if_empty(node, node.inputs[i]);
  if (node.has_input(3)) node.inputs[2] = ValueId::none();
  const auto coordinates = node.attributes.find("coordinate_transformation_mode");
  if (coordinates != node.attributes.end() &&
      coordinates->second == Attribute(std::string("tf_half_pixel_for_nn"))) {
    // floor((x + 0.5) / scale) is what half_pixel's (x + 0.5) / scale - 0.5 rounds to, ties up.
    if (node.take_text("mode", "nearest") != "nearest" ||
        node.take_text("nearest_mode", "round_prefer_floor") != "floor") {
      node.unsupported("tf_half_pixel_for_nn is supported with modes nearest and floor only");
    }
    node.attributes["coordinate_transformation_mode"] = std::string("half_pixel");
    node.attributes["nearest_mode"] = std::string("round_prefer_ceil");
  }
  node.finish(OpKind::Resize, node.inputs);
}

// Removes `border` (left, top, right, bottom) of the spatial axes, or takes the window of size `scale` at
// its left top corner.
void crop(Translation& node) {
  const auto border = node.take_integers("border");
  const auto scale = node.take_integers("scale");
  if (!border || border->size() != 4) node.invalid("attribute 'border' is not four integers");
  const std::int64_t left = (*border)[0], top = (*border)[1], right = (*border)[2], bottom = (*border)[3];
  const ValueId x = node.input(0);
  if (std::min({left, top, right, bottom}) < 0) node.invalid("attribute 'border' has a negative element");
  ValueId ends;
  if (scale) {
    if (scale->size() != 2) node.invalid("attribute 'scale' is not two integers");
    const auto end_y = checked_add(top, (*scale)[0]), end_x = checked_add(left, (*scale)[1]);
    if (!end_y || !end_x) node.invalid("attribute 'scale' is beyond all sizes");
    ends = node.integers({*end_y, *end_x});
  } else {
    const ValueId sizes =
        node.add(OpKind::Shape, {x}, {{"start", std::int64_t{2}}, {"end", std::int64_t{4}}});
    ends = node.add(OpKind::Sub, {sizes, node.integers({bottom, right})});
  }
  node.finish(OpKind::Slice, {x, node.integers({top, left}), ends, node.integers({2, 3})});
}

void constant(Translation& node) {
  if (node.attributes.size() != 1 || node.outputs.size() != 1) {
    node.invalid(fmt::format("it has {} attributes and {} outputs, expected one of each",
                             node.attributes.size(), node.outputs.size()));
  }
  const auto& [name, value] = *node.attributes.begin();
  const auto strings = [](Extents extents, std::span<const std::string> values) {
    return Tensor::from(DType::String, std::move(extents), values);
  };
  Tensor tensor;
  if (const auto* given = std::get_if<Tensor>(&value)) {
    tensor = *given;
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    tensor = Tensor::from_integer(*integer);
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    tensor = Tensor::from_integers(*integers);
  } else if (const auto* number = std::get_if<double>(&value)) {
    const auto single = static_cast<float>(*number);
    tensor = Tensor::from(DType::F32, {}, std::span(&single, 1));
  } else if (const auto* many = std::get_if<std::vector<double>>(&value)) {
    const std::vector<float> singles(many->begin(), many->end());
    tensor = Tensor::from(DType::F32, {static_cast<std::int64_t>(singles.size())}, std::span(singles));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    tensor = strings({}, std::span(text, 1));
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    tensor = strings({static_cast<std::int64_t>(texts->size())}, *texts);
  } else {
    node.invalid(fmt::format("attribute '{}' holds no constant", name));
  }
  node.results = {node.graph.add_constant(std::move(tensor), node.outputs[0])};
}

void eye_like(Translation& node) {
  if (const auto type = node.take_integer("dtype")) {
    node.attributes["dtype"] = static_cast<std::int64_t>(require_dtype(*type, "attribute 'dtype'"));
  }
  node.finish(OpKind::EyeLike, node.inputs);
}

// com.microsoft's step is optional.
void range(Translation& node) {
  if (!node.has_input(2)) {
    const ValueId one = node.add(OpKind::CastLike, {node.integers({1}), node.input(0)});
    node.inputs.resize(2);
    node.inputs.push_back(node.add(OpKind::Reshape, {one, node.integers(std::span<const std::int64_t>())}));
  }
  node.finish(OpKind::Range, node.inputs);
}

}  // namespace kiln::frontend::translate
