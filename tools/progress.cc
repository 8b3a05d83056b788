#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "tools/command.h"

namespace kiln::tools {

Progress::Progress() : interactive_(isatty(fileno(stderr)) == 1) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::show(std::string_view text) {
  if (!interactive_) return;
  fmt::print(stderr, "\r\x1b[K{:.100}", printable(text));
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace kiln::tools
