// Opening cache files: who may have written them, what format they are in. Internal to jit/cache.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "jit/cache/sqlite.h"

namespace kiln::jit {

constexpr int kStoreFormatVersion = 1;

// All throw Error (environment, io) that says what is wrong with the file, or sqlite::Failure.

// The writable file: made if missing, with its folders. A damaged file of ours is emptied, which `log` tells;
// a file that is not ours is never touched.
std::unique_ptr<sqlite::Connection> open_store_file(const std::string& path,
                                                    const std::function<void(std::string_view)>& log);

// Empties a damaged file of ours and gives it the schema again.
void reset_store_file(sqlite::Connection& connection);

// An exported file, read only.
std::unique_ptr<sqlite::Connection> open_layer(const std::string& path);

// A new, empty file with a rollback journal, whose permissions follow the umask.
std::unique_ptr<sqlite::Connection> create_export(const std::string& path);

}  // namespace kiln::jit
