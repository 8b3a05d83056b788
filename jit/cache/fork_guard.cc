#include "jit/cache/fork_guard.h"

#include <mutex>
#include <vector>

#include <pthread.h>

namespace kiln::jit {

// Locks are taken in the order registry, members.
struct ForkGuard::Registry {
  std::mutex mutex;
  std::vector<ForkGuard*> members;

  Registry() { pthread_atfork(&before, &after, &after); }

  static Registry& instance() {
    static Registry* registry = new Registry;  // outlives every member, also at exit
    return *registry;
  }
  static void before() {
    Registry& registry = instance();
    registry.mutex.lock();
    for (ForkGuard* member : registry.members) {
      member->mutex_.lock();
      member->close_(member->state_);
    }
  }
  static void after() {
    Registry& registry = instance();
    for (ForkGuard* member : registry.members) member->mutex_.unlock();
    registry.mutex.unlock();
  }
};

ForkGuard::ForkGuard(std::mutex& mutex, void* state, void (*close)(void*))
    : mutex_(mutex), state_(state), close_(close) {
  Registry& registry = Registry::instance();
  std::lock_guard lock(registry.mutex);
  registry.members.push_back(this);
}

ForkGuard::~ForkGuard() {
  Registry& registry = Registry::instance();
  std::lock_guard lock(registry.mutex);
  std::erase(registry.members, this);
}

}  // namespace kiln::jit
