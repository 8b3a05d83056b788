#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fnmatch.h>
#include <kiln/tensor_file.h>
#include <nlohmann/json.hpp>

#include "tools/arguments.h"
#include "tools/command.h"
#include "tools/coverage.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

struct Rule {
  enum class Kind : std::uint8_t { Tolerance, ShapeOnly, Skip } kind;
  const char* pattern;
  double relative, absolute;
  const char* reason;
};

constexpr Rule kRules[] = {
#define KILN_TOLERANCE(pattern, relative, absolute, reason) \
  {Rule::Kind::Tolerance, pattern, relative, absolute, reason},
#define KILN_SHAPE_ONLY(pattern, reason) {Rule::Kind::ShapeOnly, pattern, 0, 0, reason},
#define KILN_SKIP(pattern, reason) {Rule::Kind::Skip, pattern, 0, 0, reason},
#include "tools/verify_rules.def"
#undef KILN_TOLERANCE
#undef KILN_SHAPE_ONLY
#undef KILN_SKIP
};

const Rule* find_rule(const std::string& path) {
  for (const Rule& rule : kRules) {
    if (fnmatch(rule.pattern, path.c_str(), 0) == 0) return &rule;
  }
  return nullptr;
}

void print_rules() {
  for (const Rule& rule : kRules) {
    switch (rule.kind) {
      case Rule::Kind::Tolerance:
        fmt::print("tolerance   {}  rtol {} atol {}: {}\n", rule.pattern, rule.relative, rule.absolute,
                   rule.reason);
        break;
      case Rule::Kind::ShapeOnly:
        fmt::print("shape only  {}: {}\n", rule.pattern, rule.reason);
        break;
      case Rule::Kind::Skip:
        fmt::print("skip        {}: {}\n", rule.pattern, rule.reason);
        break;
    }
  }
}

struct VerifyOptions {
  std::vector<std::string> paths;
  double relative = 1e-3, absolute = 1e-7;
  bool dynamic = false, dynamic_rank = false, as_initializers = false, rules = false;
  std::string json;
};

enum class Verdict : std::uint8_t { Passed, Failed, Skipped };

struct Outcome {
  std::string test;
  Verdict verdict = Verdict::Passed;
  std::string reason;
  std::int64_t fallback_nodes = 0;
  Category category{};
};

bool compares_as_numbers(DType dtype) {
  return bits(dtype) >= 8 && dtype != DType::String && dtype_class(dtype) != DTypeClass::Complex &&
         dtype != DType::I64 && dtype != DType::U64 && !(is_float(dtype) && bits(dtype) == 8);
}

// Why `got` is not `want`; empty if it is. 64-bit integers and types without arithmetic must be equal.
std::string difference(const Tensor& got, const Tensor& want, double relative, double absolute,
                       bool shape_only) {
  if (got.dtype() != want.dtype())
    return fmt::format("got {}, expected {}", name(got.dtype()), name(want.dtype()));
  if (got.extents() != want.extents())
    return fmt::format("got extents {}, expected {}", to_string(got.extents()), to_string(want.extents()));
  if (shape_only) return {};
  if (!compares_as_numbers(want.dtype())) return got == want ? "" : "elements differ";
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double g = got.number(i), w = want.number(i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (std::isinf(g) || std::isinf(w) || !(std::abs(g - w) <= absolute + relative * std::abs(w)))
      return fmt::format("element {} is {}, expected {}", i, g, w);
  }
  return {};
}

// The same for what need not be a tensor.
std::string difference(const Datum& got, const Datum& want, double relative, double absolute,
                       bool shape_only) {
  if (got.is_tensor() && want.is_tensor())
    return difference(got.tensor(), want.tensor(), relative, absolute, shape_only);
  if (!got.is_sequence() || !want.is_sequence())
    return got == want ? "" : fmt::format("got {}, expected {}", to_string(got), to_string(want));
  const std::vector<Datum>& items = got.sequence().items;
  if (items.size() != want.sequence().items.size())
    return fmt::format("got {}, expected {}", to_string(got), to_string(want));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string why = difference(items[i], want.sequence().items[i], relative, absolute, shape_only);
    if (!why.empty()) return fmt::format("item {}: {}", i, why);
  }
  return {};
}

// Old files hold bf16 as u16.
Datum as_declared(Datum stored, DType declared) {
  if (!stored.is_tensor() || stored.tensor().dtype() != DType::U16 || declared != DType::BF16) return stored;
  Tensor result(DType::BF16, stored.tensor().extents());
  std::copy_n(stored.tensor().data(), stored.tensor().byte_size(), result.mutable_data());
  return result;
}

// What the files called `prefix`_K.pb hold for these inputs or outputs, and for some of `defaults`; throws if
// their numbers differ. Where there are defaults among them, the files say which: they name what they hold.
std::vector<NamedDatum> read_numbered(const fs::path& folder, const char* prefix,
                                      std::vector<ValueInfo> infos, const std::vector<ValueInfo>& defaults) {
  const auto path = [&](std::size_t i) { return folder / fmt::format("{}_{}.pb", prefix, i); };
  std::size_t files = 0;
  while (fs::exists(path(files))) ++files;
  if (files < infos.size() || files > infos.size() + defaults.size()) {
    refuse(fmt::format("{} has {} files {}_K.pb, but the model has {} {}s{}", folder.string(), files, prefix,
                       infos.size(), prefix,
                       defaults.empty() ? "" : fmt::format(" and {} with a default value", defaults.size())));
  }
  const bool named = files > infos.size();
  infos.insert(infos.end(), defaults.begin(), defaults.end());
  std::vector<NamedDatum> data;
  for (std::size_t i = 0; i < files; ++i) {
    NamedDatum stored = read_datum(path(i), infos[i].container, infos[i].dtype);
    const auto meant = std::ranges::find(infos, stored.name, &ValueInfo::name);
    const ValueInfo& info = named && meant != infos.end() ? *meant : infos[i];
    data.push_back({info.name, as_declared(std::move(stored.datum), info.dtype)});
  }
  return data;
}

// Runs one data set; gives why it failed, or nothing.
std::string run_data_set(const fs::path& model, const fs::path& folder, const GlobalOptions& global,
                         const VerifyOptions& options, const Rule* rule, Outcome& outcome) {
  Options session_options = global.session_options();
  session_options.ignore_declared_dims = options.dynamic;
  session_options.ignore_declared_ranks = options.dynamic_rank;
  // The model first: if its operators are refused, what the files hold does not matter.
  std::optional<Session> session = Session::load(model, session_options);
  outcome.category = category_of(*session);
  std::vector<NamedDatum> inputs = read_numbered(folder, "input", session->inputs(), session->defaults());
  const std::vector<NamedDatum> want = read_numbered(folder, "output", session->outputs(), {});
  if (options.as_initializers) {
    for (const NamedDatum& input : inputs) {
      if (input.datum.is_tensor())
        session_options.constant_inputs.push_back({input.name, input.datum.tensor()});
    }
    std::erase_if(inputs, [](const NamedDatum& input) { return input.datum.is_tensor(); });
    session = Session::load(model, session_options);
  }
  const std::vector<Datum> got = session->run(std::span<const NamedDatum>(inputs));
  outcome.fallback_nodes += session->stats().fallback_nodes;
  const bool tolerant = rule != nullptr && rule->kind == Rule::Kind::Tolerance;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string why = difference(
        got[i], want[i].datum, tolerant ? std::max(rule->relative, options.relative) : options.relative,
        tolerant ? std::max(rule->absolute, options.absolute) : options.absolute,
        rule != nullptr && rule->kind == Rule::Kind::ShapeOnly);
    if (!why.empty()) return fmt::format("output {}: {}", want[i].name, why);
  }
  return {};
}

Outcome run_test(const fs::path& folder, const GlobalOptions& global, const VerifyOptions& options) {
  Outcome outcome{.test = folder.string(), .verdict = Verdict::Passed, .reason = {}};
  const Rule* rule = find_rule(outcome.test);
  if (rule != nullptr && rule->kind == Rule::Kind::Skip)
    return {outcome.test, Verdict::Skipped, rule->reason};
  std::vector<fs::path> data_sets;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_"))
      data_sets.push_back(entry.path());
  }
  std::sort(data_sets.begin(), data_sets.end());
  if (data_sets.empty()) return {outcome.test, Verdict::Skipped, "no test_data_set folder"};
  for (const fs::path& data_set : data_sets) {
    try {
      outcome.reason = run_data_set(folder / "model.onnx", data_set, global, options, rule, outcome);
    } catch (const std::exception& error) {
      outcome.reason = error.what();
    }
    if (!outcome.reason.empty()) {
      outcome.verdict = Verdict::Failed;
      return outcome;
    }
  }
  return outcome;
}

std::vector<fs::path> find_tests(const std::vector<std::string>& paths) {
  std::vector<fs::path> tests;
  for (const std::string& path : paths) {
    if (!fs::exists(path))
      throw Error(ErrorKind::Caller, ErrorCode::NotFound, fmt::format("{} does not exist", path));
    if (!fs::is_directory(path)) {
      refuse(fmt::format("{} is not a folder; expected one that holds model.onnx and test_data_set_0", path));
    }
    if (fs::exists(fs::path(path) / "model.onnx")) {
      tests.emplace_back(path);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().filename() == "model.onnx") tests.push_back(entry.path().parent_path());
    }
  }
  std::sort(tests.begin(), tests.end());
  tests.erase(std::unique(tests.begin(), tests.end()), tests.end());
  return tests;
}

const char* name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Passed:
      return "passed";
    case Verdict::Failed:
      return "failed";
    case Verdict::Skipped:
      return "skipped";
  }
  return "";
}

void write_json(const std::string& path, const std::vector<Outcome>& outcomes) {
  Coverage coverage;
  for (const Outcome& outcome : outcomes) {
    const bool without_fallback = outcome.verdict == Verdict::Passed && outcome.fallback_nodes == 0;
    coverage.add(outcome.test, outcome.category, without_fallback);
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Outcome& outcome : outcomes) {
    const Category category = coverage.category(outcome.test);
    list.push_back({{"test", outcome.test},
                    {"class", category.operator_class},
                    {"types", category.element_types},
                    {"verdict", name(outcome.verdict)},
                    {"reason", outcome.reason},
                    {"fallback_nodes", outcome.fallback_nodes}});
  }
  std::ofstream file(path);
  const nlohmann::ordered_json report = {{"tests", std::move(list)}, {"classes", coverage.json()}};
  // Names of files need not be UTF-8.
  file << report.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw Error(ErrorKind::Environment, ErrorCode::Io, fmt::format("cannot write {}", path));
}

void verify(const GlobalOptions& global, const VerifyOptions& options, int& exit_status) {
  if (options.rules) {
    print_rules();
    return;
  }
  if (options.paths.empty()) throw CLI::RequiredError("FOLDER");
  const std::vector<fs::path> tests = find_tests(options.paths);
  if (tests.empty())
    throw Error(ErrorKind::Caller, ErrorCode::NotFound,
                fmt::format("no folder with a model.onnx in {}", fmt::join(options.paths, ", ")));
  std::vector<Outcome> outcomes;
  std::map<Verdict, int> counts;
  Progress progress;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    progress.show(fmt::format("{} of {}: {}", i + 1, tests.size(), tests[i].filename().string()));
    outcomes.push_back(run_test(tests[i], global, options));
    const Outcome& outcome = outcomes.back();
    ++counts[outcome.verdict];
    if (outcome.verdict == Verdict::Passed && !global.verbose) continue;
    progress.show("");
    fmt::print("{} {}{}{}\n", name(outcome.verdict), printable(outcome.test),
               outcome.reason.empty() ? "" : ": ", printable(outcome.reason));
  }
  progress.show("");
  if (!options.json.empty()) write_json(options.json, outcomes);
  fmt::print("{} passed, {} failed, {} skipped\n", counts[Verdict::Passed], counts[Verdict::Failed],
             counts[Verdict::Skipped]);
  if (counts[Verdict::Failed] > 0) exit_status = 1;
}

}  // namespace

void add_verify(CLI::App& app, const GlobalOptions& global, int& exit_status) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand(
      "verify", "run folders in the ONNX test layout, recursively, and compare the outputs");
  command->footer(
      "A test is a folder with model.onnx and test_data_set_N/{input_K.pb,output_K.pb}. Inputs beyond those "
      "that\n"
      "the model needs replace default values, by the names in the files. It passes if\n"
      "|got - want| <= atol + rtol * |want| for every element. One line for each test that does not pass "
      "(with\n"
      "--verbose: for each); the last line counts; exit status 1 if one failed.\n");
  command->add_option("paths", options->paths, "folders")->type_name("FOLDER");
  add_value(*command, "--rtol", options->relative, number_from(0, 1e9), "relative tolerance")->type_name("X");
  add_value(*command, "--atol", options->absolute, number_from(0, 1e9), "absolute tolerance")->type_name("X");
  command->add_flag("--dynamic", options->dynamic, "hide the declared dimensions of the inputs");
  command->add_flag("--dynamic-rank", options->dynamic_rank, "hide the declared ranks of the inputs too");
  command->add_flag("--as-initializers", options->as_initializers, "make the inputs constants of the model");
  command->add_flag("--rules", options->rules, "print the built-in tolerances and exceptions");
  add_value(*command, "--json", options->json, parse_text,
            "file for a record of each test, and for each class of operators how many ran without "
            "reference kernels")
      ->type_name("FILE");
  command->callback([&global, options, &exit_status] {
    try {
      verify(global, *options, exit_status);
    } catch (const fs::filesystem_error& error) {
      throw Error(ErrorKind::Environment, ErrorCode::Io,
                  fmt::format("cannot read {}: {}", error.path1().string(), error.code().message()));
    }
  });
}

}  // namespace kiln::tools
