// Artifacts on disk, by key: one SQLite file shared by threads and processes. docs/cache-format.md describes
// it.
//
// A cache is never a reason for a run to fail: damage, a full disk, a read-only folder, a file of another
// format or an unsafe owner make every lookup a miss, with one warning for each kind of problem.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/result.h"
#include "jit/artifact.h"
#include "jit/cache/key.h"

namespace kiln::jit {

struct StoreOptions {
  // Made with its folder if missing (modes 0600 and 0700). The file and its folder must belong to this user
  // or root and be writable by nobody else: what lies in it is executed. (In a folder with the sticky bit,
  // such as /tmp, the file and its side files must.)
  std::string path;
  // Most bytes of keys and code; the least recently used Artifacts go first.
  std::int64_t max_bytes = 256 << 20;
  // A use is recorded if the last one on record is older than this, so that runs that find everything write
  // nothing. Microseconds.
  std::int64_t access_granularity = 3'600'000'000;
  // Exported files that are read, never written, after `path`, in this order. The same rules of ownership.
  std::vector<std::string> layers;
  // Called with one line, from any thread, without locks held.
  std::function<void(std::string_view)> warn;
};

struct StoreEntry {
  std::string key;                   // 32 hex digits
  std::int64_t bytes = 0;            // of key and code
  std::int64_t accessed = 0;         // microseconds since 1970
  std::string llvm_version;          // that compiled it
  bool from_this_generator = false;  // whether this build of Kiln can use it
  bool damaged = false;              // nothing else here is to be believed
  ArtifactFacts facts;               // zeros if another generator wrote them in another form
};

struct StoreStats {
  std::int64_t artifacts = 0;
  std::int64_t bytes = 0;  // of keys and code
  std::int64_t max_bytes = 0;
  std::int64_t file_bytes = 0;  // on disk, without side files
  int format_version = 0;
};

struct StoreCheck {
  std::int64_t checked = 0;
  std::int64_t removed = 0;  // Artifacts whose content did not match their checksum or key
  bool rebuilt = false;      // the file was damaged and has been written anew with what could be saved
};

struct StoreTransfer {
  std::int64_t copied = 0;
  std::int64_t present = 0;  // not copied because the target has them
  std::int64_t refused = 0;  // damaged
};

// Thread safe. Survives fork(): files are closed before it and opened again on both sides when needed.
class Store {
 public:
  // Opens nothing yet.
  explicit Store(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The Artifact, or why not: Error (environment) not_found if the file is sound and lacks it, io if the file
  // cannot be used. The message is for people: "cached for another schedule".
  Result<Artifact> find(const ArtifactKey& key);

  // Keeps the Artifact, replacing what has its key. Problems are logged.
  void insert(const ArtifactKey& key, const Artifact& artifact);

  // For `kiln cache`. Error (environment, io) where the file cannot be used.
  const std::string& path() const;
  Result<std::vector<StoreEntry>> list();  // most recently used first
  Result<StoreStats> stats();
  Result<StoreCheck> verify();  // checks every byte, removes what is damaged
  // Evicts down to `max_bytes` (by default the Store's own limit) and gives free space back to the file
  // system. Returns how many were evicted.
  Result<std::int64_t> collect(std::optional<std::int64_t> max_bytes = {});
  // Writes all sound Artifacts to a new file that can serve as a layer.
  Result<StoreTransfer> export_to(const std::string& path);
  Result<StoreTransfer> import_from(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln::jit
