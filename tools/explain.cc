#include <memory>

#include <fmt/format.h>

#include "tools/arguments.h"
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
  CLI::App* command = app.add_subcommand("explain", "show what becomes of a model, from graph to assembly");
  add_value(*command, "model", options->model, parse_text, "ONNX file")->type_name("MODEL")->required();
  command->add_option("--stage", options->stage, "what to show")
      ->check(CLI::IsMember({"graph", "regions", "plan", "tile", "llvm", "asm"}))
      ->capture_default_str();
  add_value(*command, "--filter", options->filter, parse_text,
            "only regions that have this in their name (regions, tile, llvm, asm)")
      ->type_name("NAME");
  options->inputs.add_to(*command, false);
  command->footer(
      "  graph     the graph after all passes, shapes symbolic\n"
      "  regions   which nodes are compiled together, by which template, and why no more\n"
      "  plan      the steps for given sizes (--dim, --shape): launches, memory offsets, cost\n"
      "  tile      every kernel in the tile language (docs/tile-ir.md)\n"
      "  llvm asm  every kernel as LLVM IR or assembly, for --target\n");
  command->callback([&global, options] {
    const bool by_name = options->stage != "graph" && options->stage != "plan";
    if (!by_name && !options->filter.empty())
      bad_argument("--filter", fmt::format("stage {} is shown whole", options->stage));
    const Session session = Session::load(options->model, global.session_options());
    check_bindings(session, options->inputs);
    std::vector<std::vector<std::int64_t>> extents;
    if (options->stage == "plan") extents = input_extents(session, options->inputs);
    const std::string text = session.explain(options->stage, options->filter, extents);
    if (text.empty() && !options->filter.empty())
      throw Error(ErrorKind::Caller, ErrorCode::NotFound,
                  fmt::format("nothing has {} in its name", options->filter));
    fmt::print("{}", text.empty()
                         ? "nothing is left to compile: no output depends on what a kernel computes\n"
                         : text);
  });
}

}  // namespace kiln::tools
