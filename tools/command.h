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

// Throws Error (caller): what the command line asks for does not fit the files.
[[noreturn]] void refuse(std::string message);

// Prints the line on standard error, once however often it comes. From any thread.
void warn(std::string_view line);

// Options before or after the subcommand's name, the same for all.
struct GlobalOptions {
  std::string device = "cpu";
  std::string target = "native";
  std::string kernels = "generated";
  int threads = 0;
  std::string cache;
  bool verbose = false;

  void add_to(CLI::App& app);
  Options session_options() const;
};

// `--dim`, `--shape`, `--input`, `--random-seed` of commands that run a model.
struct InputOptions {
  std::map<std::string, std::int64_t> dims;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::map<std::string, std::string> files;
  std::uint64_t seed = 1;

  void add_to(CLI::App& command, bool with_files);
  // Throws the error of a command line that contradicts itself.
  void check() const;
};

// Throws Error (caller) if --shape or --dim does not fit the model.
void check_bindings(const Session& session, const InputOptions& options);

// Extents of every input, from the model, --shape and --dim. Throws Error (caller) naming the input and the
// dimension that is still open.
std::vector<std::vector<std::int64_t>> input_extents(const Session& session, const InputOptions& options);

struct ModelInputs {
  std::vector<NamedDatum> data;
  std::vector<std::string> random;  // names of those that no file gave
};

// A tensor for every input: files where given, else seeded random values (floats uniform in [-1, 1), integers
// in [0, 100), booleans true); of those with a default value, the given ones.
ModelInputs make_inputs(const Session& session, const InputOptions& options);

// Runs once. An Error of the caller's says which inputs are of Kiln's own making, if it may come from them.
std::vector<Datum> run_once(const Session& session, const ModelInputs& inputs);

// Makes what is missing of a folder for outputs.
void make_folder(const std::string& path);

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
