#include "jit/status.h"

#include <span>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/base/errors.h"

namespace kiln::jit {

void throw_status(const KernelStatus& status, int grid_rank) {
  const std::span<const std::int64_t> program(status.program, static_cast<std::size_t>(grid_rank));
  const std::string where = fmt::format("{}", fmt::join(program, ","));
  switch (static_cast<StatusCode>(status.code)) {
    case StatusCode::IndexOutOfRange:
      throw Error(ErrorKind::Caller, ErrorCode::IndexOutOfRange,
                  fmt::format("index {} is out of range", status.detail), {{"program", where}});
    case StatusCode::DivisionByZero:
      throw Error(ErrorKind::Caller, ErrorCode::DivisionByZero, "integer division by zero",
                  {{"program", where}});
    case StatusCode::LocalTooLarge:
      throw Error(
          ErrorKind::Caller, ErrorCode::LimitExceeded,
          fmt::format(
              "a local of the kernel needs {} elements or more, beyond the max that it declares; raise "
              "the max or give smaller extents",
              status.detail),
          {{"program", where}});
    case StatusCode::Ok:
      break;
  }
  throw_bug("kernel status {} at program {}", status.code, where);
}

}  // namespace kiln::jit
