#include <array>

#include <kiln/dtype.h>

#include "ir/base/errors.h"

namespace kiln {
namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
  DTypeClass kind;
};

constexpr std::array kRows = {
#define KILN_DTYPE(enumerator, name, bits, kind) DTypeRow{name, bits, DTypeClass::kind},
#include <kiln/dtypes.def>
#undef KILN_DTYPE
};

const DTypeRow& row(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  if (number >= kRows.size()) throw_caller(ErrorCode::InvalidArgument, "{} is no number of a dtype", number);
  return kRows[number];
}

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int bits(DType dtype) { return row(dtype).bits; }

DTypeClass dtype_class(DType dtype) { return row(dtype).kind; }

std::int64_t byte_size(DType dtype, std::int64_t elements) {
  std::int64_t total;
  if (elements < 0 || __builtin_mul_overflow(elements, std::int64_t{bits(dtype)}, &total) ||
      total > INT64_MAX - 7) {
    throw_caller(ErrorCode::InvalidArgument, "{} elements of {} are more than memory can hold", elements,
                 name(dtype));
  }
  return (total + 7) / 8;
}

}  // namespace kiln
