#include "jit/cache/store_state.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sqlite3.h>
#include <unistd.h>

#include "ir/base/errors.h"
#include "jit/cache/sqlite.h"
#include "jit/cache/store_file.h"

namespace kiln::jit {

using sqlite::Connection;
using sqlite::Failure;
using sqlite::Statement;

Store::State::State(StoreOptions the_options)
    : options(std::move(the_options)),
      fork_guard(mutex, this, [](void* state) { static_cast<State*>(state)->close_for_fork(); }) {}

void Store::State::close_for_fork() {
  if (connection) connection->close_fast();
  connection.reset();
  layers.clear();
  layer_tried.clear();
}

Connection& Store::State::file() {
  if (connection && opened_by != getpid()) {
    // A child made without fork(): nothing of SQLite can be trusted in it.
    connection.release()->abandon();
    throw_environment(ErrorCode::Io, "the process was cloned without fork() while {} was open", options.path);
  }
  if (!connection) {
    connection = open_store_file(options.path, options.max_bytes, [this](std::string_view text) {
      rebuilt = true;
      report("damaged", text);
    });
    opened_by = getpid();
  }
  return *connection;
}

Connection* Store::State::layer(std::size_t index) {
  layers.resize(options.layers.size());
  layer_tried.resize(options.layers.size());
  if (!layer_tried[index]) {
    layer_tried[index] = true;
    const std::string& path = options.layers[index];
    try {
      layers[index] = open_layer(path);
    } catch (const Error& error) {
      report("layer " + path, fmt::format("layer not used: {}", error.message()));
    } catch (const Failure& failure) {
      report("layer " + path, fmt::format("layer {} not used: {}", path, failure.what()));
    }
  }
  return layers[index].get();
}

bool Store::State::rebuilds(const Failure& failure) {
  if (!failure.is_damage() || rebuilt) return false;
  rebuilt = true;
  try {
    report("damaged", rebuild_store_file(*connection, options.path, failure, options.max_bytes));
    return true;
  } catch (const Failure&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

Error Store::State::failed(const Failure& failure) {
  Error error(ErrorKind::Environment, ErrorCode::Io, fmt::format("{}: {}", options.path, failure.what()));
  const auto stop_writing = [&](std::string_view why) {
    report("writing", fmt::format("{}: {}; nothing more is written to it", options.path, why));
    may_write = false;
    return error;
  };
  if (connection && may_write) {
    switch (failure.code()) {
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return stop_writing("another process holds it");
      case SQLITE_FULL:
      case SQLITE_READONLY:
      case SQLITE_IOERR:
        return stop_writing(failure.what());
      default:
        break;
    }
  }
  return give_up(error);
}

Error Store::State::give_up(const Error& error) {
  report("unusable", error.message() + "; it is not used");
  unusable = error;
  return error;
}

std::int64_t recount(Connection& connection) {
  connection.run("UPDATE totals SET bytes = (SELECT coalesce(sum(bytes), 0) FROM artifacts)");
  return connection.number("SELECT bytes FROM totals");
}

std::int64_t evict(Connection& connection, std::int64_t max_bytes) {
  std::int64_t total = connection.number("SELECT bytes FROM totals");
  if (total <= max_bytes) return 0;
  // Before anything is thrown away, the sum itself is made sure of.
  total = recount(connection);
  if (total <= max_bytes) return 0;
  const std::int64_t target = max_bytes - max_bytes / 10;
  std::vector<std::int64_t> victims;
  Statement oldest(connection, "SELECT id, bytes FROM artifacts ORDER BY accessed, id");
  while (total > target && oldest.step()) {
    victims.push_back(oldest.integer(0));
    total -= oldest.integer(1);
  }
  Statement remove(connection, "DELETE FROM artifacts WHERE id = ?");
  for (const std::int64_t id : victims) remove.bind(0, id).run();
  return static_cast<std::int64_t>(victims.size());
}

void remove_artifact(Connection& connection, std::span<const std::byte> key) {
  Statement(connection, "DELETE FROM artifacts WHERE key = ?").bind(0, key).run();
}

}  // namespace kiln::jit
