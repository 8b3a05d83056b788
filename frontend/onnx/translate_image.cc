// Translators: sampling of images.
#include "frontend/onnx/translators.h"

namespace kiln::frontend::translate {

// Before opset 20, and in com.microsoft, the modes had the names of two dimensions.
void grid_sample_bilinear(Translation& node) {
  const std::string mode = node.take_text("mode", "bilinear");
  node.attributes["mode"] = std::string(mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
  node.finish(OpKind::GridSample, node.inputs);
}

// There was no shift by half an element.
void roi_align_10(Translation& node) {
  node.attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
  node.finish(OpKind::RoiAlign, node.inputs);
}

}  // namespace kiln::frontend::translate
