#include "jit/cache/rescue.h"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace kiln::jit {
namespace {

using sqlite::Connection;
using sqlite::Failure;
using sqlite::Statement;

constexpr std::size_t kMostRows = 1 << 20;

// A scan ends where it meets damage: each tree is read from both its ends.
constexpr const char* kScans[] = {
    "SELECT id FROM artifacts NOT INDEXED ORDER BY id",
    "SELECT id FROM artifacts NOT INDEXED ORDER BY id DESC",
    "SELECT id FROM artifacts INDEXED BY artifacts_by_access ORDER BY accessed",
    "SELECT id FROM artifacts INDEXED BY artifacts_by_access ORDER BY accessed DESC",
};

template <typename Body>
void as_far_as_readable(const Body& body) {
  try {
    body();
  } catch (const Failure&) {
    // What lies behind the damage is given up.
  }
}

}  // namespace

RescuedRow::RescuedRow(const ArtifactRow& source) : row_(source) {
  for (const auto part : {source.key, source.facts, source.canonical, source.object})
    bytes_.insert(bytes_.end(), part.begin(), part.end());
  std::size_t at = 0;
  for (auto* part : {&row_.key, &row_.facts, &row_.canonical, &row_.object}) {
    *part = std::span<const std::byte>(bytes_).subspan(at, part->size());
    at += part->size();
  }
}

std::vector<RescuedRow> rescue(Connection& connection, std::int64_t max_bytes) {
  std::set<std::int64_t> ids;
  for (const char* scan : kScans) {
    as_far_as_readable([&] {
      Statement rows(connection, scan);
      while (ids.size() < kMostRows && rows.step()) ids.insert(rows.integer(0));
    });
  }
  std::vector<RescuedRow> rescued;
  std::int64_t bytes = 0;
  for (const std::int64_t id : ids) {
    as_far_as_readable([&] {
      Statement row_of(connection, std::string(kSelectArtifacts) + "WHERE id = ?");
      row_of.bind(0, id);
      if (!row_of.step()) return;
      const ArtifactRow row(row_of);
      if (!row.is_genuine() || bytes + row.bytes() > max_bytes) return;
      bytes += row.bytes();
      rescued.emplace_back(row);
    });
  }
  return rescued;
}

}  // namespace kiln::jit
