// Typed indices into vectors: plain data, hashed and printed by number, and not interchangeable.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace kiln {

template <typename Tag>
struct Id {
  std::uint32_t index = UINT32_MAX;

  static constexpr Id none() { return {}; }
  constexpr explicit operator bool() const { return index != UINT32_MAX; }
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace kiln

template <typename Tag>
struct std::hash<kiln::Id<Tag>> {
  std::size_t operator()(kiln::Id<Tag> id) const noexcept { return std::hash<std::uint32_t>()(id.index); }
};
