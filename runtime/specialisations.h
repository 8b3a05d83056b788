// A loaded model and what becomes of it once it is known what its inputs say: ranks that the model leaves
// open, and small inputs that say where or how many (axes, a shape, pads ...). For these, shapes are inferred
// anew, so that generated kernels can serve what would need reference kernels otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/datum.h>

#include "ir/graph/graph.h"
#include "runtime/session_core.h"

namespace kiln::runtime {

// Thread safe.
class Specialisations {
 public:
  Specialisations(graph::Graph graph, ModelOptions options, const Parallelism& parallelism,
                  std::int64_t memory_limit);

  // As declared.
  const graph::Graph& graph() const { return graph_; }

  // The one that fits these inputs. Only the first kMost different facts get one of their own, so that a
  // value that changes with each run compiles nothing for long; the others share the general one, and so do
  // inputs that contradict the Graph.
  SessionCore& for_inputs(std::span<const Datum> inputs);
  // Nothing known but what the model declares.
  SessionCore& general();
  // That of the newest run; the general one before any.
  SessionCore& newest();

 private:
  static constexpr std::size_t kMost = 8;
  // Made by one run, while only those with the same facts wait.
  struct Specialised {
    std::mutex making;
    std::unique_ptr<SessionCore> core;
    bool withdrawn = false;  // it could not be made: no longer in the map
  };

  // Null where the general one is to serve.
  std::shared_ptr<Specialised> entry_for(const std::string& facts);
  std::unique_ptr<SessionCore> make(graph::Graph graph) const;
  // What identifies the facts of these inputs; nothing if one is too large to be known.
  std::optional<std::string> key(std::span<const Datum> inputs) const;
  graph::Graph specialised(std::span<const Datum> inputs) const;
  bool fit(std::span<const Datum> inputs) const;  // in their extents

  const graph::Graph graph_;
  const ModelOptions options_;
  const Parallelism parallelism_;
  const std::int64_t memory_limit_;
  std::vector<std::size_t> open_ranks_, telling_;  // inputs by position
  std::mutex general_mutex_;
  std::unique_ptr<SessionCore> general_;
  std::mutex mutex_;  // of the map alone
  std::map<std::string, std::shared_ptr<Specialised>> by_facts_;
  std::atomic<SessionCore*> newest_ = nullptr;
};

}  // namespace kiln::runtime
