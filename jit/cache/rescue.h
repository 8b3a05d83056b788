// Saving what can still be read of a damaged file. Internal to jit/cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/cache/artifact_row.h"
#include "jit/cache/sqlite.h"

namespace kiln::jit {

// A row with memory of its own.
class RescuedRow {
 public:
  explicit RescuedRow(const ArtifactRow& source);
  RescuedRow(RescuedRow&&) = default;
  RescuedRow& operator=(RescuedRow&&) = default;

  const ArtifactRow& row() const { return row_; }

 private:
  std::vector<std::byte> bytes_;
  ArtifactRow row_;  // of views into bytes_
};

// Every genuine Artifact that the damage left within reach, up to `max_bytes`. Throws nothing of SQLite's.
std::vector<RescuedRow> rescue(sqlite::Connection& connection, std::int64_t max_bytes);

}  // namespace kiln::jit
