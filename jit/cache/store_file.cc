#include "jit/cache/store_file.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/errors.h"
#include "jit/cache/rescue.h"

namespace kiln::jit {
namespace {

constexpr int kApplicationId = 0x4b494c4e;  // "KILN"
constexpr int kJournalTries = 1000;         // of one millisecond
constexpr const char* kSideFiles[] = {"-journal", "-wal", "-shm"};

constexpr const char* kSchema = R"sql(
  CREATE TABLE artifacts (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    kernel INTEGER NOT NULL,
    accessed INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    symbol TEXT NOT NULL,
    facts BLOB NOT NULL,
    canonical BLOB NOT NULL,
    object BLOB NOT NULL
  );
  CREATE INDEX artifacts_by_kernel ON artifacts (kernel);
  CREATE INDEX artifacts_by_access ON artifacts (accessed);
  CREATE TABLE totals (bytes INTEGER NOT NULL);
  INSERT INTO totals VALUES (0);
  CREATE TRIGGER artifact_added AFTER INSERT ON artifacts BEGIN
    UPDATE totals SET bytes = bytes + new.bytes;
  END;
  CREATE TRIGGER artifact_removed AFTER DELETE ON artifacts BEGIN
    UPDATE totals SET bytes = bytes - old.bytes;
  END;
  PRAGMA application_id = 1263094862;
  PRAGMA user_version = 1;
)sql";
static_assert(kApplicationId == 1263094862 && kStoreFormatVersion == 1);

template <typename... Args>
[[noreturn]] void unusable(fmt::format_string<Args...> format, Args&&... args) {
  throw_environment(ErrorCode::Io, format, std::forward<Args>(args)...);
}

struct Place {
  std::string folder;  // no symbolic links
  std::string file;    // folder and name
};

// Makes missing folders for this user alone.
void make_folders(const std::string& folder) {
  for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string part = folder.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) {
      unusable("cannot make the folder {}: {}", part, std::strerror(errno));
    }
    if (end == std::string::npos) return;
  }
}

Place locate(const std::string& path, bool make) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash == 0 ? 1 : slash);
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name.empty() || name == "." || name == ".." || path.find('\0') != std::string::npos) {
    unusable("got '{}', expected the path of a file", path);
  }
  if (make) make_folders(folder);
  std::array<char, PATH_MAX> resolved;
  if (realpath(folder.c_str(), resolved.data()) == nullptr) {
    unusable("cannot use the folder {}: {}", folder, std::strerror(errno));
  }
  const std::string real = resolved.data();
  return {real, real == "/" ? real + name : real + "/" + name};
}

bool owner_is_trusted(const struct stat& status) { return status.st_uid == geteuid() || status.st_uid == 0; }
bool others_can_write(const struct stat& status) { return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0; }

void check_folder(const std::string& folder) {
  struct stat status;
  if (stat(folder.c_str(), &status) != 0)
    unusable("cannot use the folder {}: {}", folder, std::strerror(errno));
  if (!owner_is_trusted(status)) {
    unusable("the folder {} belongs to user {}, expected user {} or root", folder, status.st_uid, geteuid());
  }
  if (others_can_write(status) && (status.st_mode & S_ISVTX) == 0) {
    unusable("others can write the folder {} (mode {:04o}); remove their permission", folder,
             status.st_mode & 07777);
  }
}

void check_file(const std::string& file) {
  struct stat status;
  if (lstat(file.c_str(), &status) != 0) unusable("cannot use {}: {}", file, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) unusable("{} is not a plain file", file);
  if (!owner_is_trusted(status)) {
    unusable("{} belongs to user {}, expected user {} or root", file, status.st_uid, geteuid());
  }
  if (others_can_write(status)) {
    unusable("others can write {} (mode {:04o}); remove their permission", file, status.st_mode & 07777);
  }
}

// SQLite reads its side files as readily as the file itself.
void check_side_files(const std::string& file) {
  for (const char* suffix : kSideFiles) {
    const std::string side = file + suffix;
    struct stat status;
    if (lstat(side.c_str(), &status) == 0) check_file(side);
  }
}

// The first bytes of the file through SQLite's own descriptor: closing another one would drop its locks.
std::array<unsigned char, 100> header(const sqlite::Connection& connection) {
  std::array<unsigned char, 100> bytes{};
  sqlite3_file* file = nullptr;
  sqlite3_file_control(connection.handle(), "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file));
  if (file != nullptr && file->pMethods != nullptr) file->pMethods->xRead(file, bytes.data(), 100, 0);
  return bytes;
}

bool header_is_ours(const sqlite::Connection& connection) {
  const auto bytes = header(connection);
  const unsigned id = static_cast<unsigned>(bytes[68]) << 24 | static_cast<unsigned>(bytes[69]) << 16 |
                      static_cast<unsigned>(bytes[70]) << 8 | bytes[71];
  return std::memcmp(bytes.data(), "SQLite format 3", 16) == 0 && id == kApplicationId;
}

// Gives an empty file the schema; checks any other. The schema is written before the switch to a write-ahead
// log, so that the header in the file itself says whose it is, whatever happens to side files.
void check_or_create_schema(sqlite::Connection& connection, const std::string& file) {
  const bool blank = connection.number("PRAGMA application_id") == 0 &&
                     connection.number("SELECT count(*) FROM sqlite_schema") == 0;
  if (blank) {
    connection.run("PRAGMA auto_vacuum = INCREMENTAL");
    sqlite::Transaction transaction(connection);
    // Another process may have been faster.
    if (connection.number("PRAGMA application_id") == 0) connection.run(kSchema);
    transaction.commit();
  }
  if (connection.number("PRAGMA application_id") != kApplicationId) {
    unusable("{} is not a kernel cache; remove it or name another file", file);
  }
  const std::int64_t version = connection.number("PRAGMA user_version");
  if (version != kStoreFormatVersion) {
    unusable("{} has format version {}, expected {}; remove it or name another file", file, version,
             kStoreFormatVersion);
  }
}

void use_write_ahead_log(sqlite::Connection& connection) {
  for (int tries = 0;; ++tries) {
    try {
      if (connection.text("PRAGMA journal_mode = WAL") == "wal") break;
    } catch (const sqlite::Failure& failure) {
      if (failure.code() != SQLITE_BUSY || tries == kJournalTries) throw;
    }
    if (tries == kJournalTries) unusable("cannot use a write-ahead log here");
    sqlite3_sleep(1);
  }
  connection.run(
      "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304; PRAGMA cell_size_check = ON");
}

void create_empty(const std::string& file, mode_t mode) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (descriptor >= 0) {
    close(descriptor);
  } else if (errno != EEXIST) {
    unusable("cannot create {}: {}", file, std::strerror(errno));
  }
}

}  // namespace

std::unique_ptr<sqlite::Connection> open_store_file(const std::string& path, std::int64_t max_bytes,
                                                    const std::function<void(std::string_view)>& on_damage) {
  const Place place = locate(path, true);
  check_folder(place.folder);
  {
    // Closing a descriptor drops the locks that SQLite holds on the same file in this process.
    static std::mutex creating;
    std::lock_guard lock(creating);
    create_empty(place.file, 0600);
  }
  check_file(place.file);
  check_side_files(place.file);
  auto connection = std::make_unique<sqlite::Connection>(place.file, sqlite::Mode::Write);
  if (sqlite3_db_readonly(connection->handle(), "main") == 1) unusable("{} is read-only", place.file);
  try {
    check_or_create_schema(*connection, place.file);
    use_write_ahead_log(*connection);
    // Opens the log and checks that the tables are there.
    connection->number(
        "SELECT (SELECT bytes FROM totals) + (SELECT count(*) FROM artifacts WHERE key = x'')");
  } catch (const sqlite::Failure& failure) {
    if (!failure.is_damage()) throw;
    if (!header_is_ours(*connection)) {
      unusable("{} is not a kernel cache ({}); remove it or name another file", place.file, failure.what());
    }
    on_damage(rebuild_store_file(*connection, place.file, failure, max_bytes));
  }
  // Nobody can have put a side file there in between and have it used.
  check_side_files(place.file);
  return connection;
}

std::string rebuild_store_file(sqlite::Connection& connection, const std::string& file,
                               const sqlite::Failure& failure, std::int64_t max_bytes) {
  const std::vector<RescuedRow> rescued = rescue(connection, max_bytes);
  connection.reset();
  check_or_create_schema(connection, file);
  use_write_ahead_log(connection);
  sqlite::Transaction transaction(connection);
  for (const RescuedRow& each : rescued) each.row().insert_into(connection);
  transaction.commit();
  return fmt::format("{} is damaged ({}) and is written anew: {} kernels are saved, others are lost", file,
                     failure.what(), rescued.size());
}

std::unique_ptr<sqlite::Connection> open_layer(const std::string& path) {
  const Place place = locate(path, false);
  check_folder(place.folder);
  check_file(place.file);
  auto connection = std::make_unique<sqlite::Connection>(place.file, sqlite::Mode::Immutable);
  if (!header_is_ours(*connection)) unusable("{} is not a kernel cache", place.file);
  // Read and write version 2: part of the content may lie in a log beside it, which a layer must not need.
  if (header(*connection)[18] != 1) unusable("{} is a cache in use; export it to get a layer", place.file);
  const std::int64_t version = connection->number("PRAGMA user_version");
  if (version != kStoreFormatVersion) {
    unusable("{} has format version {}, expected {}", place.file, version, kStoreFormatVersion);
  }
  return connection;
}

std::unique_ptr<sqlite::Connection> create_export(const std::string& path) {
  const Place place = locate(path, false);
  create_empty(place.file, 0644);
  auto connection = std::make_unique<sqlite::Connection>(place.file, sqlite::Mode::Write);
  check_or_create_schema(*connection, place.file);
  return connection;
}

}  // namespace kiln::jit
