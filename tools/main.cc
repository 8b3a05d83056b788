#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>

#include "tools/command.h"

namespace {

// One line for a command line that does not parse. An unknown word is the cause even where CLI11 first sees
// that something else is missing.
std::string parse_message(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "kiln";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    command += " " + at->get_name();
  }
  const std::vector<std::string> unknown = app.remaining(true);
  const bool is_unknown = !unknown.empty() && (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ||
                                               dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr);
  return fmt::format("{} (see {} --help)",
                     is_unknown ? "unknown argument " + unknown.front() : std::string(error.what()), command);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kiln::tools;
  CLI::App app{
      "Kiln runs ONNX models with dynamic dimensions on kernels generated for this machine.\n"
      "\n"
      "  kiln run model.onnx --dim batch=8                      once, on random inputs\n"
      "  kiln run model.onnx --input x=x.npy --output-dir out   on inputs from files\n"
      "  kiln bench model.onnx --dim batch=1 --threads 1        latency\n"
      "  kiln verify tests/                                     folders in the ONNX test layout\n"
      "  kiln explain model.onnx --stage regions                what became of the model\n"
      "  kiln kernel run softmax.tile --extents x:64x1000 --extents y:64x1000\n"
      "\n"
      "The options below may stand before or after the command. Exit status: 0 all is well; 1 an error or a\n"
      "failed check; 2 a command line that is wrong whatever the files hold: an argument that is unknown,\n"
      "malformed or given twice, or two that contradict each other.\n",
      "kiln"};
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", std::string(kiln::version()));
  GlobalOptions global;
  global.add_to(app);

  int exit_status = 0;
  add_run(app, global, exit_status);
  add_verify(app, global, exit_status);
  add_bench(app, global, exit_status);
  add_explain(app, global, exit_status);
  add_cache(app, global, exit_status);
  add_kernel(app, global, exit_status);
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0)
      throw kiln::Error(kiln::ErrorKind::Environment, kiln::ErrorCode::Io, "cannot write to standard output");
    return exit_status;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "kiln: {}\n", kiln::printable(parse_message(app, error)));
    return 2;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "kiln: there is not enough memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "kiln: {}\n", kiln::printable(error.what()));
  }
  return 1;
}
