#include <memory>

#include <fmt/format.h>

#include "tools/command.h"

namespace kiln::tools {
namespace {

struct ExplainOptions {
  std::string model, stage = "regions", filter;
  InputOptions inputs;
};

}  // namespace

void add_explain(CLI::App& app, const GlobalOptions& global, int&) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand("explain",
                                         "show what becomes of a model: its graph, regions, plan (needs "
                                         "sizes), tile kernels, LLVM IR, assembly");
  command->add_option("model", options->model, "ONNX file")->required();
  command->add_option("--stage", options->stage, "what to show")
      ->check(CLI::IsMember({"graph", "regions", "plan", "tile", "llvm", "asm"}))
      ->capture_default_str();
  command->add_option("--filter", options->filter, "only what has this in its name");
  options->inputs.add_to(*command, false);
  command->callback([&global, options] {
    const Session session = Session::load(options->model, global.session_options());
    std::vector<std::vector<std::int64_t>> extents;
    if (options->stage == "plan") extents = input_extents(session, options->inputs);
    fmt::print("{}", session.explain(options->stage, options->filter, extents));
  });
}

}  // namespace kiln::tools
