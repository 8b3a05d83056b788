#include "frontend/onnx/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/errors.h"

namespace kiln::frontend {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void throw_open_error(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    throw_caller(ErrorCode::NotFound, "no such file: '{}'", path);
  }
  throw_environment(ErrorCode::Io, "cannot open '{}': {}", path, std::generic_category().message(error));
}

// Non-blocking, so that a FIFO is refused by its type instead of waiting for a writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// The names between the slashes, without "." and empty ones.
std::vector<std::string> parts_of(const std::string& location) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= location.size();) {
    const std::size_t end = std::min(location.find('/', begin), location.size());
    const std::string part = location.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::map(int descriptor, const std::string& path,
                                                  std::int64_t max_bytes) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) throw_open_error(path, errno);
  if (!S_ISREG(status.st_mode)) throw_caller(ErrorCode::Io, "'{}' is not a regular file", path);
  if (status.st_size > max_bytes) {
    throw_caller(ErrorCode::LimitExceeded, "'{}' holds {} bytes, the limit is {}", path, status.st_size,
                 max_bytes);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    throw_environment(ErrorCode::Io, "cannot map '{}': {}", path, std::generic_category().message(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, std::int64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), kOpenFlags));
  if (file.number() < 0) throw_open_error(path, errno);
  return map(file.number(), path, max_bytes);
}

// Each part is opened below the one before and never through a link, so that nothing can be swapped between
// a check and the opening.
std::shared_ptr<const MappedFile> MappedFile::open_below(const std::string& folder,
                                                         const std::string& location,
                                                         std::int64_t max_bytes) {
  if (location.empty() || location.front() == '/' || location.find('\0') != std::string::npos) {
    throw_caller(ErrorCode::InvalidModel,
                 "external data location '{}' is not a path below the model's folder", location);
  }
  const std::vector<std::string> parts = parts_of(location);
  if (parts.empty() || std::find(parts.begin(), parts.end(), "..") != parts.end()) {
    throw_caller(ErrorCode::InvalidModel, "external data location '{}' leaves the model's folder", location);
  }
  Descriptor current(::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (current.number() < 0) throw_open_error(folder, errno);
  for (const std::string& part : parts) {
    const int flags = kOpenFlags | O_NOFOLLOW | (&part == &parts.back() ? 0 : O_DIRECTORY);
    Descriptor next(::openat(current.number(), part.c_str(), flags));
    if (next.number() < 0 && errno == ELOOP) {
      throw_caller(ErrorCode::InvalidModel, "external data location '{}' goes through a symbolic link",
                   location);
    }
    if (next.number() < 0) throw_open_error(location, errno);
    current = std::move(next);
  }
  return map(current.number(), location, max_bytes);
}

}  // namespace kiln::frontend
