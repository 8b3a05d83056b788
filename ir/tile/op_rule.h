// What a typing rule sees of an Op, and the checks that rules share. One rule per Opcode.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/base/errors.h"
#include "ir/tile/kernel.h"

namespace kiln::tile {

using Types = std::vector<Type>;

struct OpSite {
  Opcode code;
  std::span<const Type> operands;
  const Attributes& attributes;
  std::span<const Type> wanted;

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_caller(ErrorCode::TypeMismatch, "{}: {}", label(),
                 fmt::format(format, std::forward<Args>(args)...));
  }
  // The op's text name, with its function or combiner.
  std::string label() const;

  void count_operands(std::size_t expected) const;
  void count_operands_at_least(std::size_t expected) const;
  const Type& tile(std::size_t operand) const;
  const Type& view(std::size_t operand) const;
  const Type& value(std::size_t operand) const;  // a scalar or a tile
  const Type& scalar(std::size_t operand, DType dtype) const;
  void index(std::size_t operand) const { scalar(operand, DType::I64); }
  void indices_from(std::size_t first) const;  // the rest of the operands
  // The one wanted type, checked: a scalar or a tile within limits.
  const Type& wanted_value() const;
  // axes[0], the only axis, checked against `rank`.
  std::int64_t only_axis(std::int64_t rank) const;
  // That axes is a permutation of 0 .. rank - 1; strictly ascending axes below rank.
  void check_permutation(int rank) const;
  void check_ascending(int rank) const;
  const Literal& literal(DType dtype) const;
};

// Throws through the site if the type breaks a limit of the language.
void check_limits(const OpSite& site, const Type& type);

// i1, integers of 8 bits and more, and the floats that compute (f16, bf16, f32, f64).
bool computes(DType dtype);
bool computes_number(DType dtype);  // all of those but i1
bool computes_integer(DType dtype);
bool computes_float(DType dtype);

template <Opcode code>
Types infer(const OpSite& site);

#define KILN_TILE_OP(enumerator, name) \
  template <>                          \
  Types infer<Opcode::enumerator>(const OpSite& site);
#include "ir/tile/ops.def"
#undef KILN_TILE_OP

}  // namespace kiln::tile
