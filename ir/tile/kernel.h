// A Kernel: a tile-IR function over a grid of independent program instances.
//
// Plain data: Values, Ops and Blocks are vectors addressed by typed Ids. A Block lists Ops in order and ends
// with a Yield (the body's top Block yields nothing). Values are SSA: each is a parameter, a Block argument
// or a result of one Op, and is visible in the Blocks nested where it is defined. Meta parameters are bound
// before a Kernel exists, so every tile has static extents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/id.h"
#include "ir/tile/type.h"

namespace kiln::tile {

using ValueId = Id<struct TileValueTag>;
using OpId = Id<struct TileOpTag>;
using BlockId = Id<struct TileBlockTag>;

enum class Opcode : std::uint8_t {
#define KILN_TILE_OP(enumerator, name) enumerator,
#include "ir/tile/ops.def"
#undef KILN_TILE_OP
};

enum class Function : std::uint8_t {
#define KILN_PRIMITIVE(enumerator, name, arity) enumerator,
#define KILN_FUNCTION(enumerator, name, arity, ulp) enumerator,
#include "ir/tile/elementwise.def"
};

enum class Combiner : std::uint8_t {
#define KILN_COMBINER(enumerator, name, results) enumerator,
#include "ir/tile/combiners.def"
#undef KILN_COMBINER
};

std::string_view name(Opcode opcode);
std::string_view name(Function function);
std::string_view name(Combiner combiner);
int arity(Function function);
bool is_primitive(Function function);
int result_count(Combiner combiner);

// The bits of one scalar of a dtype, zero-extended; floats by their own encoding.
struct Literal {
  DType dtype = DType::I64;
  std::uint64_t bits = 0;
  static Literal integer(DType dtype, std::int64_t value);
  static Literal number(DType dtype, double value);  // rounds to the dtype
  double as_number() const;
  std::int64_t as_integer() const;
  bool operator==(const Literal&) const = default;
};

enum class PadMode : std::uint8_t { Constant, Edge, Reflect, Wrap };

// What an Op carries beside operands; ops.def says which fields count for which Opcode. Every member has an
// initializer, so that designated ones may leave it out.
struct Attributes {
  std::vector<std::int64_t> axes{};
  std::vector<std::int64_t> sizes{};
  std::vector<std::int64_t> strides{};
  std::vector<std::int64_t> dilations{};
  std::int64_t count = 0;
  PadMode pad_mode = PadMode::Constant;
  bool exclusive = false;
  bool reverse = false;
  std::optional<Literal> literal{};
  Function function{};  // Elementwise
  Combiner combiner{};  // Reduce, Scan
  std::string text{};   // Assert, Print
  bool operator==(const Attributes&) const = default;
};

// Axes 0 to kMaxGridRank - 1 have program ids; blocks nest at most kMaxBlockDepth deep.
constexpr int kMaxGridRank = 6;
constexpr int kMaxBlockDepth = 32;
constexpr int kMaxOps = 1 << 15;
constexpr int kMaxViewDepth = 64;  // combinators between a view and its memory
constexpr std::size_t kMaxParameters = 256;
constexpr int kMaxLocals = 256;

struct Op {
  Opcode code = Opcode::Constant;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  std::vector<BlockId> blocks;
  Attributes attributes;
};

struct Block {
  std::vector<ValueId> arguments;
  std::vector<OpId> ops;
};

struct Value {
  Type type;
  std::string name;  // for printing, unique or empty; never hashed
};

enum class Access : std::uint8_t { In, Out, InOut };

// Memory views of different parameters do not alias, unless both have the same non-zero alias group.
struct Parameter {
  ValueId value;  // a memory view or a scalar
  Access access = Access::In;
  int alias_group = 0;
};

// Extent `axis` of a memory view that is a parameter.
struct ParameterExtent {
  ValueId view;
  int axis = 0;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  // Groups of run-time extents, two or more each, that whoever runs the Kernel has made equal. An extent is
  // in one group at most.
  std::vector<std::vector<ParameterExtent>> equal_extents;
  BlockId grid;  // yields one index per grid dimension; uses only scalar ops and dim over parameters
  BlockId body;  // no arguments
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<Block> blocks;

  const Type& type(ValueId id) const { return values[id.index].type; }
  const Op& op(OpId id) const { return ops[id.index]; }
  const Block& block(BlockId id) const { return blocks[id.index]; }
  int grid_rank() const;  // operands of the grid Block's Yield
};

// Throws Error (caller/shape_mismatch) unless extents that `kernel` takes for equal are; `extent` gives that
// of parameter number `parameter` along `axis`.
void require_equal_extents(const Kernel& kernel,
                           const std::function<std::int64_t(std::size_t parameter, int axis)>& extent);

}  // namespace kiln::tile
