#include "runtime/plan_cache.h"

#include <utility>

namespace kiln::runtime {

std::shared_ptr<const Plan> PlanCache::find(const graph::Bindings& signature) {
  const std::lock_guard lock(mutex_);
  const auto found = by_signature_.find(signature);
  if (found == by_signature_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return *found->second;
}

void PlanCache::insert(std::shared_ptr<const Plan> plan) {
  const std::lock_guard lock(mutex_);
  newest_ = plan;
  const auto [entry, inserted] = by_signature_.try_emplace(plan->bindings);
  if (!inserted) return;
  order_.push_front(std::move(plan));
  entry->second = order_.begin();
  if (order_.size() > capacity_) {
    by_signature_.erase(order_.back()->bindings);
    order_.pop_back();
  }
}

std::shared_ptr<const Plan> PlanCache::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

}  // namespace kiln::runtime
