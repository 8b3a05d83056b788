// Read-only files mapped into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kiln::frontend {

// The bytes of one regular file. Immutable, thread safe; Tensors that are spans of it own it. The file must
// not be truncated while it is mapped.
class MappedFile {
 public:
  // Follows symbolic links in `path`, which the caller chose. Throws Error: not_found if it is absent, io if
  // it cannot be read or is not a regular file, limit_exceeded if it holds more than `max_bytes`.
  static std::shared_ptr<const MappedFile> open(const std::string& path, std::int64_t max_bytes);

  // Opens `location`, a relative path that comes from a model, below `folder`. Throws Error (caller) on an
  // absolute path, on "..", on a symbolic link in any of its parts, and as open() does.
  static std::shared_ptr<const MappedFile> open_below(const std::string& folder, const std::string& location,
                                                      std::int64_t max_bytes);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  static std::shared_ptr<const MappedFile> map(int descriptor, const std::string& path,
                                               std::int64_t max_bytes);

  std::span<const std::byte> bytes_;
};

}  // namespace kiln::frontend
