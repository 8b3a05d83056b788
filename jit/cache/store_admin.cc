// What `kiln cache` does with a Store.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sqlite3.h>
#include <unistd.h>

#include "ir/base/errors.h"
#include "jit/cache/artifact_row.h"
#include "jit/cache/sqlite.h"
#include "jit/cache/store.h"
#include "jit/cache/store_file.h"
#include "jit/cache/store_state.h"
#include "kiln_generator_hash.h"

namespace kiln::jit {

using sqlite::Connection;
using sqlite::Failure;
using sqlite::Statement;
using sqlite::Transaction;

namespace {

StoreTransfer copy_artifacts(Connection& from, Connection& to) {
  StoreTransfer transfer;
  Transaction transaction(to);
  Statement rows(from, std::string(kSelectArtifacts) + "ORDER BY id");
  while (rows.step()) {
    const ArtifactRow row(rows);
    if (!row.is_genuine()) {
      ++transfer.refused;
    } else if (row.insert_into(to)) {
      ++transfer.copied;
    } else {
      ++transfer.present;
    }
  }
  transaction.commit();
  return transfer;
}

}  // namespace

Result<std::vector<StoreEntry>> Store::list() {
  State::Access access(*state_);
  return state_->on_file([&](Connection& connection) {
    std::vector<StoreEntry> entries;
    Statement rows(connection, std::string(kSelectArtifacts) + "ORDER BY accessed DESC, id DESC");
    while (rows.step()) {
      const ArtifactRow row(rows);
      StoreEntry entry;
      entry.key = key_hex(row.key);
      entry.damaged = !row.is_sound();
      if (entry.damaged) {
        entries.push_back(std::move(entry));
        continue;
      }
      entry.bytes = row.bytes();
      entry.accessed = row.accessed;
      entry.facts = decode_facts(row.facts).value_or(ArtifactFacts{});
      if (const std::optional<KeySections> sections = sections_of(row.canonical)) {
        entry.llvm_version.assign(reinterpret_cast<const char*>(sections->llvm.data()),
                                  sections->llvm.size());
        entry.from_this_generator =
            std::ranges::equal(sections->generator, std::as_bytes(std::span(kGeneratorHash)));
      }
      entries.push_back(std::move(entry));
    }
    return entries;
  });
}

Result<StoreStats> Store::stats() {
  State::Access access(*state_);
  return state_->on_file([&](Connection& connection) {
    StoreStats stats;
    stats.artifacts = connection.number("SELECT count(*) FROM artifacts");
    stats.bytes = connection.number("SELECT bytes FROM totals");
    stats.max_bytes = state_->options.max_bytes;
    stats.file_bytes = connection.number("PRAGMA page_count") * connection.number("PRAGMA page_size");
    stats.format_version = kStoreFormatVersion;
    return stats;
  });
}

Result<StoreCheck> Store::verify() {
  State::Access access(*state_);
  return state_->on_file([&](Connection& connection) {
    if (const std::string verdict = connection.text("PRAGMA integrity_check(1)"); verdict != "ok") {
      throw Failure(connection.handle(), SQLITE_CORRUPT, verdict);
    }
    StoreCheck check;
    std::vector<std::vector<std::byte>> damaged;
    {
      Statement rows(connection, std::string(kSelectArtifacts) + "ORDER BY id");
      while (rows.step()) {
        const ArtifactRow row(rows);
        ++check.checked;
        if (!row.is_genuine()) damaged.emplace_back(row.key.begin(), row.key.end());
      }
    }
    Transaction transaction(connection);
    for (const std::vector<std::byte>& key : damaged) remove_artifact(connection, key);
    recount(connection);
    transaction.commit();
    check.removed = static_cast<std::int64_t>(damaged.size());
    check.rebuilt = state_->rebuilt;
    return check;
  });
}

Result<std::int64_t> Store::collect(std::optional<std::int64_t> max_bytes) {
  State::Access access(*state_);
  return state_->on_file([&](Connection& connection) {
    Transaction transaction(connection);
    state_->write_accesses(connection);
    const std::int64_t evicted = evict(connection, max_bytes.value_or(state_->options.max_bytes));
    transaction.commit();
    connection.run("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)");
    return evicted;
  });
}

Result<StoreTransfer> Store::export_to(const std::string& path) {
  State::Access access(*state_);
  return state_->on_file([&](Connection& connection) -> StoreTransfer {
    // Written under another name first, so that `path` is whole or absent.
    const std::string partial = fmt::format("{}.{}.partial", path, getpid());
    StoreTransfer transfer;
    try {
      const std::unique_ptr<Connection> target = create_export(partial);
      transfer = copy_artifacts(connection, *target);
    } catch (...) {
      std::remove(partial.c_str());
      throw;
    }
    if (std::rename(partial.c_str(), path.c_str()) != 0) {
      std::remove(partial.c_str());
      throw_environment(ErrorCode::Io, "cannot write {}", path);
    }
    return transfer;
  });
}

Result<StoreTransfer> Store::import_from(const std::string& path) {
  State::Access access(*state_);
  return state_->on_file([&](Connection& connection) {
    const std::unique_ptr<Connection> source = open_layer(path);
    const StoreTransfer transfer = copy_artifacts(*source, connection);
    Transaction transaction(connection);
    evict(connection, state_->options.max_bytes);
    transaction.commit();
    return transfer;
  });
}

}  // namespace kiln::jit
