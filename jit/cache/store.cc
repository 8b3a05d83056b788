#include "jit/cache/store.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jit/cache/artifact_row.h"
#include "jit/cache/sqlite.h"
#include "jit/cache/store_state.h"

namespace kiln::jit {

using sqlite::Connection;
using sqlite::Failure;
using sqlite::Statement;
using sqlite::Transaction;

namespace {

// Microseconds since 1970: fine enough to order accesses, and meaningful to every process.
std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::string_view kAbsent = "not in the cache";

// Why `connection` has no Artifact for `key`.
std::string explain_absence(Connection& connection, const ArtifactKey& key) {
  const std::optional<KeySections> ours = sections_of(key.canonical);
  if (!ours) return std::string(kAbsent);
  Statement same_kernel(connection,
                        "SELECT canonical FROM artifacts WHERE kernel = ? ORDER BY id DESC LIMIT 8");
  same_kernel.bind(0, static_cast<std::int64_t>(digest(ours->kernel)));
  std::string closest;
  while (same_kernel.step()) {
    const std::optional<KeySections> theirs = sections_of(same_kernel.blob(0));
    if (!theirs || !std::ranges::equal(ours->kernel, theirs->kernel)) continue;
    const std::string text = difference(*ours, *theirs);
    if (!text.empty() && (closest.empty() || text.size() < closest.size())) closest = text;
  }
  return closest.empty() ? std::string(kAbsent) : "cached for " + closest;
}

}  // namespace

std::optional<Artifact> Store::State::find_in(Connection& source, const ArtifactKey& key, bool writable,
                                              std::string& why) {
  const std::vector<std::byte> bytes = key_bytes(key.hex);
  Statement statement(source, std::string(kSelectArtifacts) + "WHERE key = ?");
  statement.bind(0, std::span<const std::byte>(bytes));
  if (!statement.step()) {
    if (why.empty() || why == kAbsent) why = explain_absence(source, key);
    return std::nullopt;
  }
  const ArtifactRow row(statement);
  if (!row.is_sound()) {
    why = "its cached code was damaged";
    report("damaged", fmt::format("the code of {} is damaged and is compiled again", key.hex));
    statement.restart();
    if (writable && may_write) remove_artifact(source, bytes);
    return std::nullopt;
  }
  if (!std::ranges::equal(row.canonical, key.canonical)) {
    why = "another kernel with the same hash is cached";
    return std::nullopt;
  }
  const std::int64_t time = now();
  if (writable && time - row.accessed >= options.access_granularity) accesses[key.hex] = time;
  return row.artifact();
}

void Store::State::write_accesses(Connection& target) {
  Statement update(target, "UPDATE artifacts SET accessed = max(accessed, ?) WHERE key = ?");
  for (const auto& [hex, time] : accesses) {
    const std::vector<std::byte> key = key_bytes(hex);
    update.bind(0, time).bind(1, std::span<const std::byte>(key)).run();
  }
  accesses.clear();
}

Store::Store(StoreOptions options) : state_(std::make_unique<State>(std::move(options))) {}

Store::~Store() {
  State::Access access(*state_);
  if (state_->accesses.empty() || state_->unusable || !state_->may_write) return;
  (void)state_->on_file([&](Connection& connection) {
    Transaction transaction(connection);
    state_->write_accesses(connection);
    transaction.commit();
    return true;
  });
}

const std::string& Store::path() const { return state_->options.path; }

Result<Artifact> Store::find(const ArtifactKey& key) {
  State::Access access(*state_);
  std::string why;
  Result<std::optional<Artifact>> found =
      state_->on_file([&](Connection& connection) { return state_->find_in(connection, key, true, why); });
  if (found && *found) return std::move(**found);
  for (std::size_t i = 0; i < state_->options.layers.size(); ++i) {
    Connection* layer = state_->layer(i);
    if (layer == nullptr) continue;
    try {
      if (std::optional<Artifact> artifact = state_->find_in(*layer, key, false, why))
        return std::move(*artifact);
    } catch (const Failure& failure) {
      const std::string& path = state_->options.layers[i];
      state_->report("layer " + path, fmt::format("layer {} not used: {}", path, failure.what()));
      state_->layers[i].reset();
    }
  }
  if (!found) return found.error();
  return Error(ErrorKind::Environment, ErrorCode::NotFound, why);
}

void Store::insert(const ArtifactKey& key, const Artifact& artifact) {
  State::Access access(*state_);
  if (!state_->may_write || state_->unusable) return;
  const std::vector<std::byte> bytes = key_bytes(key.hex);
  const std::vector<std::byte> facts = encode_facts(artifact.facts);
  const ArtifactRow row(key, bytes, artifact, facts, now());
  if (row.bytes() > state_->options.max_bytes / 4) {
    state_->report("large", fmt::format("{} with {} bytes is not kept, the limit is a quarter of {}",
                                        artifact.symbol, row.bytes(), state_->options.max_bytes));
    return;
  }
  (void)state_->on_file([&](Connection& connection) {
    Transaction transaction(connection);
    remove_artifact(connection, bytes);
    row.insert_into(connection);
    state_->write_accesses(connection);
    evict(connection, state_->options.max_bytes);
    transaction.commit();
    return true;
  });
}

}  // namespace kiln::jit
