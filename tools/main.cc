#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "tools/command.h"

int main(int argc, char** argv) {
  using namespace kiln::tools;
  CLI::App app{
      "Kiln runs ONNX models with dynamic dimensions on kernels generated for this machine.\n"
      "\n"
      "  kiln run model.onnx --dim batch=8                 run once on random inputs\n"
      "  kiln run model.onnx --input x=x.npy --output-dir out\n"
      "  kiln bench model.onnx --dim batch=1 --threads 1   latency\n"
      "  kiln verify tests/                                folders in the ONNX test layout\n"
      "  kiln explain model.onnx --stage regions           what became of the model\n"
      "  kiln kernel run softmax.tile                      a kernel written as text\n",
      "kiln"};
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", std::string(kiln::version()));
  GlobalOptions global;
  app.add_option("--device", global.device, "where to run: cpu")
      ->check(CLI::IsMember({"cpu"}))
      ->capture_default_str();
  app.add_option("--target", global.target, "instruction set of generated code")
      ->check(CLI::IsMember({"native", "x86-64-v3", "x86-64-v4"}))
      ->capture_default_str();
  app.add_option("--kernels", global.kernels, "generated kernels, or plain reference kernels alone")
      ->check(CLI::IsMember({"generated", "reference"}))
      ->capture_default_str();
  app.add_option("--threads", global.threads, "threads of a run; 0: all CPUs this process may use")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--cache", global.cache,
                 "kernel cache file, or off; default: kernels.sqlite in ~/.cache/kiln");
  app.add_flag("--verbose", global.verbose, "one line per compiled kernel, fallback and cache problem");

  int exit_status = 0;
  add_run(app, global, exit_status);
  add_verify(app, global, exit_status);
  add_bench(app, global, exit_status);
  add_explain(app, global, exit_status);
  add_cache(app, global, exit_status);
  add_kernel(app, global, exit_status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "kiln: {} (see kiln --help)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kiln: {}\n", error.what());
    return 1;
  }
  return exit_status;
}
