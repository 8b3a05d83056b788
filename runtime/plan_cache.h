// Plans by Signature, the most recently used ones.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/plan.h"

namespace kiln::runtime {

// Thread safe. Keyed by the ordered values of the Symbols, never by a hash alone.
class PlanCache {
 public:
  explicit PlanCache(std::size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const Plan> find(const graph::Bindings& signature);
  void insert(std::shared_ptr<const Plan> plan);
  std::shared_ptr<const Plan> newest() const;

 private:
  using Order = std::list<std::shared_ptr<const Plan>>;  // most recently used first

  mutable std::mutex mutex_;
  std::size_t capacity_;
  Order order_;
  std::map<graph::Bindings, Order::iterator> by_signature_;
  std::shared_ptr<const Plan> newest_;
};

}  // namespace kiln::runtime
