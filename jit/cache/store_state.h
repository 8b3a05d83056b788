// What a Store holds, and how it meets failures of its file. Internal to jit/cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "ir/base/errors.h"
#include "jit/cache/fork_guard.h"
#include "jit/cache/sqlite.h"
#include "jit/cache/store.h"

namespace kiln::jit {

struct Store::State {
  explicit State(StoreOptions the_options);

  // Holds the lock for one operation; warns of what happened after letting go of it.
  class Access {
   public:
    explicit Access(State& state) : state_(state), lock_(state.mutex) {}
    ~Access() {
      const std::vector<std::string> lines = std::exchange(state_.lines, {});
      lock_.unlock();
      if (!state_.options.warn) return;
      for (const std::string& line : lines) state_.options.warn(line);
    }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;

   private:
    State& state_;
    std::unique_lock<std::mutex> lock_;
  };

  // Everything below is called and touched with the lock held.

  // One line for each kind of problem.
  void report(const std::string& kind, std::string_view text) {
    if (reported.insert(kind).second) lines.push_back(fmt::format("kernel cache: {}", text));
  }

  sqlite::Connection& file();
  sqlite::Connection* layer(std::size_t index);
  // True if the file was damaged and has now been written anew with what could be saved; at most once.
  bool rebuilds(const sqlite::Failure& failure);
  // What follows from another failure of `connection`, or of opening it.
  Error failed(const sqlite::Failure& failure);
  Error give_up(const Error& error);
  // Runs `body(connection)` on the file, once more if it had to be rebuilt, and turns what goes wrong into an
  // Error value.
  template <typename Body>
  auto on_file(Body&& body) -> Result<decltype(body(std::declval<sqlite::Connection&>()))>;
  // If nothing, `why` says why, unless an earlier file gave a better reason.
  std::optional<Artifact> find_in(sqlite::Connection& connection, const ArtifactKey& key, bool writable,
                                  std::string& why);
  void write_accesses(sqlite::Connection& connection);
  void close_for_fork();

  const StoreOptions options;
  std::mutex mutex;
  std::unique_ptr<sqlite::Connection> connection;
  pid_t opened_by = 0;
  std::optional<Error> unusable;  // set once; the file is then left alone
  bool may_write = true;
  bool rebuilt = false;
  std::vector<std::unique_ptr<sqlite::Connection>> layers;
  std::vector<bool> layer_tried;
  std::map<std::string, std::int64_t> accesses;  // by key: microseconds since 1970, not yet written
  std::set<std::string> reported;
  std::vector<std::string> lines;  // warnings not yet told
  ForkGuard fork_guard;
};

template <typename Body>
auto Store::State::on_file(Body&& body) -> Result<decltype(body(std::declval<sqlite::Connection&>()))> {
  if (unusable) return *unusable;
  sqlite::Connection* opened = nullptr;
  try {
    opened = &file();
  } catch (const sqlite::Failure& failure) {
    return failed(failure);
  } catch (const Error& error) {
    return give_up(error);
  }
  for (;;) {
    try {
      return body(*opened);
    } catch (const sqlite::Failure& failure) {
      if (failure.source() != opened->handle())
        return Error(ErrorKind::Environment, ErrorCode::Io, failure.what());
      if (!rebuilds(failure)) return failed(failure);
    } catch (const Error& error) {
      return error;
    }
  }
}

// Puts the sum of all bytes on record right, and gives it.
std::int64_t recount(sqlite::Connection& connection);

// Removes the least recently used Artifacts if there are more than `max_bytes`, and says how many. Goes a
// little further than needed, so that it is not needed again at once.
std::int64_t evict(sqlite::Connection& connection, std::int64_t max_bytes);

void remove_artifact(sqlite::Connection& connection, std::span<const std::byte> key);

}  // namespace kiln::jit
