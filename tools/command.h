// What the subcommands of `kiln` share: global options, model inputs, progress.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <kiln/kiln.h>

namespace kiln::tools {

// Options before or after the subcommand's name, the same for all.
struct GlobalOptions {
  std::string device = "cpu";
  std::string target = "native";
  std::string kernels = "generated";
  int threads = 0;
  std::string cache;
  bool verbose = false;

  Options session_options() const;
};

// `--dim`, `--shape`, `--input`, `--random-seed` of commands that run a model.
struct InputOptions {
  std::vector<std::string> dims, shapes, files;
  std::uint64_t seed = 1;

  void add_to(CLI::App& command, bool with_files);
};

// Extents of every input, from the model, --shape and --dim. Throws Error (caller) naming the input and the
// dimension that is still open.
std::vector<std::vector<std::int64_t>> input_extents(const Session& session, const InputOptions& options);

// A tensor for every input: files where given, else seeded random values (floats uniform in [-1, 1), integers
// in [0, 100), booleans true).
std::vector<NamedDatum> make_inputs(const Session& session, const InputOptions& options);

// One line on standard error that is rewritten in place, only where that is a terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  void show(std::string_view text);

 private:
  bool interactive_;
  bool shown_ = false;
};

// Each adds a subcommand; its callback runs it and may throw Error. `exit_status` is what main returns.
void add_run(CLI::App& app, const GlobalOptions& global, int& exit_status);
void add_verify(CLI::App& app, const GlobalOptions& global, int& exit_status);
void add_bench(CLI::App& app, const GlobalOptions& global, int& exit_status);
void add_explain(CLI::App& app, const GlobalOptions& global, int& exit_status);
void add_cache(CLI::App& app, const GlobalOptions& global, int& exit_status);
void add_kernel(CLI::App& app, const GlobalOptions& global, int& exit_status);

}  // namespace kiln::tools
