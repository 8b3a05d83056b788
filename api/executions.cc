#include "api/executions.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

namespace kiln::api {
namespace {

// The same contradictions, and in what else these inputs could contradict the Graph without changing ranks:
// so that few such sets serve many different runs.
runtime::Contradictions all_open(const graph::Graph& graph, const runtime::Contradictions& wrong) {
  runtime::Contradictions all = wrong;
  for (std::size_t input = 0; input < graph.inputs.size(); ++input) {
    const auto& shape = graph.value(graph.inputs[input]).shape;
    const bool in_rank = std::ranges::any_of(
        wrong, [&](const runtime::Contradiction& one) { return one.input == input && one.in_rank; });
    for (std::size_t axis = 0; shape && !in_rank && axis < shape->size(); ++axis) {
      if ((*shape)[axis].is_constant()) all.push_back({input, false, axis});
    }
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace

Executions::Executions(frontend::ModelSource source, graph::Graph declared, Options options)
    : options_(std::move(options)),
      declared_(options_.make(std::move(declared))),
      source_(std::move(source)) {}

std::shared_ptr<Execution> Executions::make(const Opening& opening, const graph::Graph& contradicted) {
  frontend::LoadOptions load = options_.load;
  for (const std::size_t i : opening.replaced) load.replaced_defaults.insert(options_.defaults[i]);
  for (const runtime::Contradiction& wrong : opening.wrong) {
    frontend::OpenedInput& input =
        load.opened_inputs[contradicted.value(contradicted.inputs[wrong.input]).name];
    if (wrong.in_rank) {
      input.rank = wrong.rank_or_axis;
    } else {
      input.axes.insert(wrong.rank_or_axis);
    }
  }
  const auto read = [&] {
    const std::scoped_lock lock(source_mutex_);
    return source_.graph(load);
  };
  try {
    return options_.make(read());
  } catch (Error& error) {
    if (opening.replaced.empty()) throw;
    throw error.with("replaced", fmt::format("{}", fmt::join(load.replaced_defaults, ", ")));
  }
}

std::shared_ptr<Execution> Executions::opened(Opening opening, const graph::Graph& contradicted,
                                              std::span<const Extents> extents) {
  // Callers choose the shapes, so that there must be an end to what they can make a Session hold.
  constexpr std::size_t kMostPrecise = 8, kMost = 16;
  std::shared_ptr<Opened> entry;
  std::vector<std::shared_ptr<Opened>> given_up;  // destroyed when no lock is held
  {
    const std::scoped_lock lock(mutex_);
    auto found = opened_.find(opening);
    if (found == opened_.end() && !opening.wrong.empty() && opened_.size() >= kMostPrecise) {
      opening.wrong = all_open(contradicted, opening.wrong);
      found = opened_.find(opening);
    }
    if (found == opened_.end()) found = opened_.emplace(opening, std::make_shared<Opened>()).first;
    entry = found->second;
    entry->last_use = ++uses_;
  }
  std::shared_ptr<Execution> execution;
  bool is_new = false;
  {
    const std::scoped_lock making(entry->making);
    is_new = !entry->execution;
    try {
      if (is_new) entry->execution = make(opening, contradicted);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      const auto found = opened_.find(opening);
      if (found != opened_.end() && found->second == entry) opened_.erase(found);
      throw;
    }
    execution = entry->execution;
  }
  {
    const std::scoped_lock lock(mutex_);
    entry->last_use = ++uses_;
    // Only what could be made pushes another out.
    while (opened_.size() > kMost) {
      const auto oldest =
          std::ranges::min_element(opened_, {}, [](const auto& known) { return known.second->last_use; });
      given_up.push_back(std::move(oldest->second));
      opened_.erase(oldest);
    }
    newest_opened_ = execution;
    newest_is_declared_ = false;
  }
  if (is_new && options_.warn && !opening.wrong.empty())
    options_.warn(fmt::format("{}: what is given counts", describe(contradicted, opening.wrong, extents)));
  return execution;
}

std::shared_ptr<Execution> Executions::newest() const {
  if (newest_is_declared_) return declared_;
  const std::scoped_lock lock(mutex_);
  return newest_opened_;
}

std::shared_ptr<Execution> Executions::for_extents(std::span<const Extents> extents) {
  std::shared_ptr<Execution> result;
  serve(
      {}, [&] { return std::vector<Extents>(extents.begin(), extents.end()); },
      [&](const std::shared_ptr<Execution>& execution) {
        graph::Bindings bindings(execution->graph().symbols.size(), graph::kUnbound);
        result = execution;
        return runtime::bind_extents(execution->graph(), extents, bindings);
      });
  return result;
}

}  // namespace kiln::api
