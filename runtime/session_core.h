// What a Session does, over internal types; api/ wraps it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kiln/datum.h>

#include "kernels_ref/reference.h"
#include "runtime/arena_pool.h"
#include "runtime/inputs.h"
#include "runtime/model.h"
#include "runtime/plan.h"
#include "runtime/plan_cache.h"
#include "runtime/thread_pool.h"

namespace kiln::runtime {

// Immutable after construction but for caches; every member is thread safe.
class SessionCore {
 public:
  SessionCore(graph::Graph graph, ModelOptions options, const Parallelism& parallelism,
              std::int64_t memory_limit);

  // Binds the Symbols that inputs of the model tell, in its order: what every other call needs. Where extents
  // contradict what the Graph declares, these come back and there is nothing to run. Throws Error (caller)
  // naming the input, got and expected for what is wrong otherwise.
  [[nodiscard]] Contradictions bind(std::span<const Datum> inputs, graph::Bindings& bindings) const;
  // The same with extents alone; none stand for the declared ones.
  [[nodiscard]] Contradictions bind(std::span<const Extents> extents, graph::Bindings& bindings) const;

  std::vector<Datum> run(std::span<const Datum> inputs, const graph::Bindings& bindings);
  // The same into memory of the caller; entries must be tensors of the outputs' dtype and extents. One that
  // is made while running, such as strings, is replaced by a tensor of its own.
  void run(std::span<const Datum> inputs, const graph::Bindings& bindings, std::span<Datum> outputs);

  const Model& model() const { return model_; }
  std::shared_ptr<const Plan> plan(graph::Bindings bindings);
  void build();
  void compile();
  std::shared_ptr<const Plan> newest_plan() const { return plans_.newest(); }
  std::int64_t plans_made() const { return plans_made_; }

  // Calls visitor(core) for this one and those of all Graphs in its nodes.
  template <typename Visitor>
  void visit(Visitor&& visitor) const {
    visitor(*this);
    for (const auto& [graph, body] : bodies_) body->visit(visitor);
  }

 private:
  SessionCore* core_of(const graph::Graph& body) const;  // null if it is not in a node
  void execute_plan(const Plan& plan, std::span<const Datum> inputs, std::span<Datum> outputs);

  Model model_;
  // Sizes of results that folding has made constants: no Step is left to tell them.
  graph::Bindings constant_sizes_;
  // Of the Graphs in nodes, which run with Plans of their own.
  std::vector<std::pair<const graph::Graph*, std::unique_ptr<SessionCore>>> bodies_;
  reference::RunBody run_body_;
  Parallelism parallelism_;
  ArenaPool arenas_;
  // Runs in flight: more than twice the CPUs would only hold more memory and push each other out of the
  // caches.
  std::counting_semaphore<> admission_;
  PlanCache plans_;
  std::atomic<std::int64_t> plans_made_ = 0;
};

}  // namespace kiln::runtime
