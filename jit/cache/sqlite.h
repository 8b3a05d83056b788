// The few SQLite calls that the Store needs, with owners and errors that fit C++. Internal to jit/cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <utility>

struct sqlite3;
struct sqlite3_stmt;

namespace kiln::jit::sqlite {

class Failure : public std::exception {
 public:
  Failure(const sqlite3* source, int code, std::string text)
      : source_(source), code_(code), text_(std::move(text)) {}
  const sqlite3* source() const { return source_; }  // the connection that failed; null if it did not open
  int code() const { return code_; }                 // SQLite's primary result code
  bool is_damage() const;  // the file's content is broken, rather than the call, the disk or a lock
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  const sqlite3* source_;
  int code_;
  std::string text_;
};

enum class Mode {
  Write,      // read and write; the file must exist
  Immutable,  // read only, of a file that nobody writes: no locks, no side files
};

// Not thread safe. Throws Failure.
class Connection {
 public:
  Connection(const std::string& path, Mode mode);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void run(const char* sql);
  std::int64_t number(const char* sql);  // the first column of the first row, 0 if none
  std::string text(const char* sql);
  std::int64_t changes() const;  // rows that the last statement changed

  // Empties the file, however broken its content, under SQLite's own locks.
  void reset();
  // Closing does not fold the write-ahead log into the file, which may take a disk flush.
  void close_fast();
  // Forgets the handle without touching the file.
  void abandon() { handle_ = nullptr; }

  sqlite3* handle() const { return handle_; }

 private:
  sqlite3* handle_ = nullptr;
};

// A prepared statement. Parameters and columns count from 0.
class Statement {
 public:
  Statement(const Connection& connection, std::string_view sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Bound memory must live until the Statement ends.
  Statement& bind(int index, std::int64_t value);
  Statement& bind(int index, double value);
  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::span<const std::byte> blob);

  bool step();  // true: a row is there
  void run();   // steps to the end, then makes the Statement ready to bind again
  void restart();

  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  // Valid until the next step().
  std::span<const std::byte> blob(int column) const;

 private:
  sqlite3* handle_;
  sqlite3_stmt* statement_ = nullptr;
};

// Rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Connection& connection);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Connection& connection_;
  bool done_ = false;
};

}  // namespace kiln::jit::sqlite
