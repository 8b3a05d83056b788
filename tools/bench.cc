#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "tools/arguments.h"
#include "tools/command.h"

namespace kiln::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::string model;
  int warmup = 5, iterations = 50;
  bool json = false;
  InputOptions inputs;
};

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// The smallest value that at least `fraction` of all are not above.
double percentile(const std::vector<double>& sorted, double fraction) {
  const auto rank =
      static_cast<std::size_t>(std::max(0.0, std::ceil(fraction * static_cast<double>(sorted.size())) - 1));
  return sorted[std::min(rank, sorted.size() - 1)];
}

void bench(const GlobalOptions& global, const BenchOptions& options) {
  options.inputs.check();
  Progress progress;
  progress.show("loading " + options.model);
  auto start = Clock::now();
  const Session session = Session::load(options.model, global.session_options());
  const double load_ms = milliseconds(Clock::now() - start);
  const ModelInputs inputs = make_inputs(session, options.inputs);
  const std::span<const NamedDatum> named(inputs.data);
  progress.show("compiling");
  start = Clock::now();
  run_once(session, inputs);
  const double first_run_ms = milliseconds(Clock::now() - start);
  for (int i = 0; i < options.warmup; ++i) session.run(named);
  std::vector<double> times;
  for (int i = 0; i < options.iterations; ++i) {
    progress.show(fmt::format("run {} of {}", i + 1, options.iterations));
    start = Clock::now();
    const std::vector<Datum> outputs = session.run(named);
    times.push_back(milliseconds(Clock::now() - start));
  }
  progress.show("");
  std::sort(times.begin(), times.end());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const SessionStats stats = session.stats();
  const nlohmann::ordered_json line = {
      {"model", printable(std::filesystem::path(options.model).filename().string())},
      {"device", global.device},
      {"target", global.target},
      {"kernels", global.kernels},
      {"threads", session.threads()},
      {"load_ms", load_ms},
      {"first_run_ms", first_run_ms},
      {"min_ms", times.front()},
      {"median_ms", percentile(times, 0.5)},
      {"p90_ms", percentile(times, 0.9)},
      {"p99_ms", percentile(times, 0.99)},
      {"iterations", options.iterations},
      {"kernels_compiled", stats.kernels_compiled},
      {"kernels_from_cache", stats.kernels_from_cache},
      {"compile_ms_total", stats.compile_ms_total},
      {"compile_ms_median", stats.compile_ms_median},
      {"fallback_nodes", stats.fallback_nodes},
      {"planned_bytes", stats.planned_bytes},
      {"peak_rss_bytes", static_cast<std::int64_t>(usage.ru_maxrss) * 1024},
  };
  if (options.json) {
    fmt::print("{}\n", line.dump());
    return;
  }
  for (const auto& [key, value] : line.items()) fmt::print("{:>20}  {}\n", key, value.dump());
}

}  // namespace

void add_bench(CLI::App& app, const GlobalOptions& global, int&) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app.add_subcommand("bench", "measure the latency of a model");
  add_value(*command, "model", options->model, parse_text, "ONNX file")->type_name("MODEL")->required();
  add_value(*command, "--warmup", options->warmup, whole_from(0, 1000000), "runs that are not measured")
      ->type_name("N");
  add_value(*command, "--iterations", options->iterations, whole_from(1, 1000000), "measured runs")
      ->type_name("N");
  command->add_flag("--json", options->json, "one line of JSON");
  options->inputs.add_to(*command, true);
  command->footer(
      "Loads once, runs once (which compiles what the cache lacks), warms up, then measures each run.\n"
      "fallback_nodes counts the nodes that no generated kernel could run; kiln explain --stage regions says "
      "why.\n");
  command->callback([&global, options] { bench(global, *options); });
}

}  // namespace kiln::tools
