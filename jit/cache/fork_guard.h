// Closes files before fork(). Internal to jit/cache.
//
// SQLite must not see a fork with files open: locks belong to processes, and its tables would say otherwise
// in the child.
#pragma once

#include <mutex>

namespace kiln::jit {

// Registered from construction to destruction: before each fork() of the process, `mutex` is locked and
// `close(state)` called; after it, `mutex` is unlocked on both sides.
class ForkGuard {
 public:
  ForkGuard(std::mutex& mutex, void* state, void (*close)(void* state));
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

 private:
  struct Registry;

  std::mutex& mutex_;
  void* state_;
  void (*close_)(void*);
};

}  // namespace kiln::jit
