// Text -> verified Kernels -> text -> the same Kernels: the text form loses nothing, and hostile text is
// refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <kiln/error.h>

#include "ir/tile/text.h"

namespace {

[[noreturn]] void fail(std::string_view what, std::string_view text) {
  fmt::print(stderr, "{}:\n{}\n", what, text);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kiln;
  std::vector<tile::Kernel> kernels;
  try {
    kernels = tile::parse_kernels({reinterpret_cast<const char*>(data), size}, "input");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Bug) fail("an error of our own", error.what());
    return 0;
  }
  for (const tile::Kernel& kernel : kernels) {
    const std::string text = print(kernel);
    try {
      const std::vector<tile::Kernel> again = tile::parse_kernels(text, "printed");
      if (again.size() != 1 || print(again[0]) != text) fail("the printed kernel reads as another", text);
    } catch (const Error& error) {
      fail(fmt::format("the printed kernel is refused: {}", error.what()), text);
    }
  }
  return 0;
}
