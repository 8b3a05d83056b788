// Texts as libunistring takes them.
#pragma once

#include <cstdint>
#include <string_view>

namespace kiln::reference {

inline const std::uint8_t* bytes(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}

}  // namespace kiln::reference
