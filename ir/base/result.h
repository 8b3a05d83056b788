// A value or the Error that explains its absence, for failures that are ordinary results.
#pragma once

#include <utility>
#include <variant>

#include <kiln/error.h>

namespace kiln {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return std::holds_alternative<T>(state_); }
  T& operator*() { return std::get<T>(state_); }
  const T& operator*() const { return std::get<T>(state_); }
  T* operator->() { return &std::get<T>(state_); }
  const T* operator->() const { return &std::get<T>(state_); }
  const Error& error() const { return std::get<Error>(state_); }

  // The value; throws the error if there is none.
  T value() && {
    if (!*this) throw error();
    return std::get<T>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

}  // namespace kiln
