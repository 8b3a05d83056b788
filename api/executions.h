// The Graphs of one model that a Session executes: as declared, and read again for runs that replace defaults
// or contradict what is declared: run-time truth wins.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/tensor.h>

#include "frontend/onnx/loader.h"
#include "ir/base/errors.h"
#include "ir/graph/graph.h"
#include "runtime/inputs.h"
#include "runtime/specialisations.h"

namespace kiln::api {

// One Graph of the model, ready to run.
struct Execution {
  std::optional<runtime::Specialisations> model;  // generated kernels
  std::optional<graph::Graph> reference_graph;    // reference kernels: run node by node

  const graph::Graph& graph() const { return model ? model->graph() : *reference_graph; }
};

// Thread safe.
class Executions {
 public:
  struct Options {
    frontend::LoadOptions load;
    std::vector<std::string> defaults;  // their names
    std::function<std::shared_ptr<Execution>(graph::Graph)> make;
    std::function<void(std::string_view)> warn;  // of contradictions; may be empty
  };
  // `declared`: the Graph that `source` gives with these options.
  Executions(frontend::ModelSource source, graph::Graph declared, Options options);

  // Calls body(execution) with the one in which the defaults at these positions, ascending, are inputs, after
  // all others. The body gives what of its inputs contradicts the Graph, and has then done nothing; it is
  // called again with an Execution in which that is open, and errors say what it is. `extents_of()`, the
  // inputs' extents, is asked then alone.
  template <typename ExtentsOf, typename Body>
  void serve(const std::vector<std::size_t>& replaced, const ExtentsOf& extents_of, const Body& body);

  // The one that takes inputs of these extents; that of the newest run.
  std::shared_ptr<Execution> for_extents(std::span<const Extents> extents);
  std::shared_ptr<Execution> newest() const;

 private:
  // How a Graph differs from the declared one.
  struct Opening {
    std::vector<std::size_t> replaced;  // defaults that are inputs
    runtime::Contradictions wrong;      // what is open
    auto operator<=>(const Opening&) const = default;
  };
  // Made by one run, while only those that need the same wait.
  struct Opened {
    std::mutex making;
    std::shared_ptr<Execution> execution;
    std::uint64_t last_use = 0;
  };

  std::shared_ptr<Execution> make(const Opening& opening, const graph::Graph& contradicted);
  std::shared_ptr<Execution> opened(Opening opening, const graph::Graph& contradicted,
                                    std::span<const Extents> extents);

  const Options options_;
  const std::shared_ptr<Execution> declared_;
  std::mutex source_mutex_;
  frontend::ModelSource source_;

  mutable std::mutex mutex_;  // of what follows, and never held for long
  std::map<Opening, std::shared_ptr<Opened>> opened_;
  std::uint64_t uses_ = 0;
  std::shared_ptr<Execution> newest_opened_;
  std::atomic<bool> newest_is_declared_ = true;
};

template <typename ExtentsOf, typename Body>
void Executions::serve(const std::vector<std::size_t>& replaced, const ExtentsOf& extents_of,
                       const Body& body) {
  std::shared_ptr<Execution> replacing;
  if (!replaced.empty()) replacing = opened({replaced, {}}, declared_->graph(), {});
  const std::shared_ptr<Execution>& first = replacing ? replacing : declared_;
  const runtime::Contradictions wrong = body(first);
  if (wrong.empty()) {
    if (!replacing && !newest_is_declared_) newest_is_declared_ = true;
    return;
  }
  const std::vector<Extents> extents = extents_of();
  try {
    const runtime::Contradictions left = body(opened({replaced, wrong}, first->graph(), extents));
    require(left.empty(), "{} inputs contradict a graph that was opened for them", left.size());
  } catch (Error& error) {
    throw error.with("inputs", runtime::describe(first->graph(), wrong, extents));
  }
}

}  // namespace kiln::api
