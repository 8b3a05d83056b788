// Bytes -> Graph -> passes, regions, templates: everything that making a Session does before it compiles. An
// input is loaded or refused with an error that is not ours.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <kiln/error.h>

#include "frontend/onnx/loader.h"
#include "runtime/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  frontend::LoadOptions options;
  options.limits.nodes = 2000;
  options.limits.nesting = 8;
  try {
    graph::Graph graph =
        frontend::load_model_bytes(std::as_bytes(std::span(data, size)), /*folder=*/"", options);
    const runtime::Model model(std::move(graph), {.target = {}, .kernels = nullptr, .log = {}});
    to_text(model.graph());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Bug) return 0;
    fmt::print(stderr, "an error of our own: {}\n", error.what());
    std::abort();
  }
  return 0;
}
