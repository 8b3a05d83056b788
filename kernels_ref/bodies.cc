#include "kernels_ref/bodies.h"

#include <memory>
#include <utility>

#include "ir/base/errors.h"

namespace kiln::reference {

using graph::Graph;

const Graph& body_of(const Call& call, std::string_view attribute) {
  return *std::get<std::shared_ptr<Graph>>(call.node.attributes.find(attribute)->second);
}

std::vector<Datum> run(const Call& call, const Graph& body, std::vector<Datum> inputs) {
  require(call.run_body != nullptr, "{} was called without a way to run its graphs", name(call.node.op));
  std::vector<Datum> outputs = (*call.run_body)(body, std::move(inputs));
  require(outputs.size() == body.outputs.size(), "graph \"{}\" gave {} outputs", body.name, outputs.size());
  return outputs;
}

void append(std::vector<Datum>& data, const Call& call, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) data.push_back(call.has_input(i) ? *call.inputs[i] : Datum());
}

}  // namespace kiln::reference
