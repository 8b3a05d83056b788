// Translators: old forms of RNN, GRU and LSTM.
#include "frontend/onnx/translators.h"

namespace kiln::frontend::translate {

// Y was left out by an attribute, before a node could leave it out itself. GRU's default direction had a
// letter missing.
void recurrent_1(Translation& node) {
  node.drop({"output_sequence"});
  const auto direction = node.attributes.find("direction");
  if (direction != node.attributes.end() && direction->second == Attribute(std::string("foward"))) {
    direction->second = std::string("forward");
  }
  node.finish(*graph::op_from_name(node.op), node.inputs);
}

}  // namespace kiln::frontend::translate
