// Opening cache files: who may have written them, what format they are in. Internal to jit/cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "jit/cache/sqlite.h"

namespace kiln::jit {

constexpr int kStoreFormatVersion = 1;

// All throw Error (environment, io) that says what is wrong with the file, or sqlite::Failure.

// The writable file: made if missing, with its folders. A damaged file of ours is rebuilt, and `on_damage`
// told so; a file that is not ours is never touched.
std::unique_ptr<sqlite::Connection> open_store_file(const std::string& path, std::int64_t max_bytes,
                                                    const std::function<void(std::string_view)>& on_damage);

// Writes a damaged file of ours anew with what can be saved of it, up to `max_bytes`. Says so, for people;
// `failure` is how the damage showed.
std::string rebuild_store_file(sqlite::Connection& connection, const std::string& file,
                               const sqlite::Failure& failure, std::int64_t max_bytes);

// An exported file, read only.
std::unique_ptr<sqlite::Connection> open_layer(const std::string& path);

// A new, empty file with a rollback journal, whose permissions follow the umask.
std::unique_ptr<sqlite::Connection> create_export(const std::string& path);

}  // namespace kiln::jit
