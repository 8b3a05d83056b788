#include "jit/cache/sqlite.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

namespace kiln::jit::sqlite {
namespace {

constexpr int kBusyMilliseconds = 2000;
// No row of ours is larger; a damaged length must not make SQLite allocate more.
constexpr int kMaxValueBytes = 64 << 20;

[[noreturn]] void fail(sqlite3* handle, int code) {
  const char* text = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  throw Failure(handle, code & 0xff, text);
}

void check(sqlite3* handle, int code) {
  if (code != SQLITE_OK) fail(handle, code);
}

// A file name as a URI: the only way to ask for an immutable file.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '_' || c == '-';
    uri += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  return uri + "?immutable=1";
}

}  // namespace

bool Failure::is_damage() const {
  return code_ == SQLITE_CORRUPT || code_ == SQLITE_NOTADB || code_ == SQLITE_TOOBIG ||
         code_ == SQLITE_ERROR || code_ == SQLITE_MISMATCH;
}

Connection::Connection(const std::string& path, Mode mode) {
  const int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE |
                    (mode == Mode::Write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  const std::string name = mode == Mode::Write ? path : immutable_uri(path);
  if (const int code = sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr); code != SQLITE_OK) {
    const std::string text = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
    sqlite3_close(std::exchange(handle_, nullptr));
    throw Failure(nullptr, code & 0xff, text);
  }
  sqlite3_busy_timeout(handle_, kBusyMilliseconds);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMaxValueBytes);
  // The file may have been written by an adversary or a failing disk: nothing in it may run.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

Connection::~Connection() { sqlite3_close(handle_); }

void Connection::run(const char* sql) {
  check(handle_, sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr));
}

std::int64_t Connection::number(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

std::string Connection::text(const char* sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text(0) : std::string();
}

std::int64_t Connection::changes() const { return sqlite3_changes64(handle_); }

void Connection::reset() {
  check(handle_, sqlite3_db_config(handle_, SQLITE_DBCONFIG_RESET_DATABASE, 1, nullptr));
  const int code = sqlite3_exec(handle_, "VACUUM", nullptr, nullptr, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_RESET_DATABASE, 0, nullptr);
  check(handle_, code);
}

void Connection::close_fast() {
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_close(std::exchange(handle_, nullptr));
}

Statement::Statement(const Connection& connection, std::string_view sql) : handle_(connection.handle()) {
  check(handle_, sqlite3_prepare_v2(handle_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(int index, std::int64_t value) {
  check(handle_, sqlite3_bind_int64(statement_, index + 1, value));
  return *this;
}

Statement& Statement::bind(int index, double value) {
  check(handle_, sqlite3_bind_double(statement_, index + 1, value));
  return *this;
}

Statement& Statement::bind(int index, std::string_view text) {
  check(handle_,
        sqlite3_bind_text64(statement_, index + 1, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int index, std::span<const std::byte> blob) {
  // A null pointer would bind NULL rather than an empty blob.
  const void* data = blob.empty() ? static_cast<const void*>("") : blob.data();
  check(handle_, sqlite3_bind_blob64(statement_, index + 1, data, blob.size(), SQLITE_STATIC));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  fail(handle_, code);
}

void Statement::run() {
  while (step()) {
  }
  restart();
}

void Statement::restart() { sqlite3_reset(statement_); }

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return data == nullptr
             ? std::string()
             : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

std::span<const std::byte> Statement::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  return {static_cast<const std::byte*>(data),
          static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

Transaction::Transaction(Connection& connection) : connection_(connection) {
  connection.run("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!done_) sqlite3_exec(connection_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  connection_.run("COMMIT");
  done_ = true;
}

}  // namespace kiln::jit::sqlite
