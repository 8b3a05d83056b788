// Builds Kernels so that C++ reads like Triton:
//
//   KernelBuilder k("softmax");
//   auto x = k.input("x", Type::view(F32, {kDynamic, kDynamic}));
//   auto y = k.output("y", ...);
//   k.grid({x.dim(0)});
//   Expr r = k.program_id(0), n = x.dim(1);
//   Expr m = k.loop(0, n, BLOCK, {k.constant(F32, -INFINITY)}, [&](Expr j, Exprs carried) -> Exprs {
//     return {max(carried[0], k.reduce(Combiner::Max, x.load({r, j}, {1, BLOCK}, -INFINITY), 1))};
//   })[0];
//
// Scalars and tiles combine by broadcasting; a C++ number takes the dtype of the other operand. Misuse (type
// mismatch, wrong rank) throws Error (bug) at once, at the line that built it. Not thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/tile/kernel.h"

namespace kiln::tile {

class KernelBuilder;

// A scalar or tile value under construction.
class Expr {
 public:
  Expr() = default;
  Expr(KernelBuilder* builder, ValueId id) : builder_(builder), id_(id) {}
  const Type& type() const;
  ValueId id() const { return id_; }
  KernelBuilder* builder() const { return builder_; }
  explicit operator bool() const { return builder_ != nullptr; }

 private:
  KernelBuilder* builder_ = nullptr;
  ValueId id_;
};
using Exprs = std::vector<Expr>;

// An operand of an elementwise function: a Value, or a number that takes the dtype of the other operands.
struct Operand {
  Expr expr;
  double number = 0;
  Operand(Expr e) : expr(e) {}                                 // NOLINT(google-explicit-constructor)
  Operand(double n) : number(n) {}                             // NOLINT(google-explicit-constructor)
  Operand(int n) : number(n) {}                                // NOLINT(google-explicit-constructor)
  Operand(std::int64_t n) : number(static_cast<double>(n)) {}  // NOLINT(google-explicit-constructor)
};

// An index operand: a Value or an integer constant.
struct Index {
  Expr expr;
  std::int64_t constant = 0;
  Index(Expr e) : expr(e) {}              // NOLINT(google-explicit-constructor)
  Index(std::int64_t c) : constant(c) {}  // NOLINT(google-explicit-constructor)
  Index(int c) : constant(c) {}           // NOLINT(google-explicit-constructor)
};
using Indices = std::vector<Index>;

// A view under construction; every
// combinator gives a derived view.
class View {
 public:
  View() = default;
  View(KernelBuilder* builder, ValueId id) : builder_(builder), id_(id) {}
  const Type& type() const;
  ValueId id() const { return id_; }
  explicit operator bool() const { return builder_ != nullptr; }

  // A static extent gives a constant.
  Expr dim(int axis) const;
  // The box of `extents` at `at`; empty extents load a scalar. Elements outside have `fill`.
  Expr load(const Indices& at, std::vector<std::int64_t> extents, double fill = 0) const;
  Expr load(const Indices& at) const;
  // The same, where `fill` is a scalar of the view's dtype.
  Expr load_filled(const Indices& at, std::vector<std::int64_t> extents, Expr fill) const;
  void store(const Indices& at, Expr value) const;
  void atomic_add(const Indices& at, Expr value) const;

  View slice(const Indices& offsets, const Indices& extents, std::vector<std::int64_t> steps = {}) const;
  View transpose(std::vector<std::int64_t> permutation) const;
  View broadcast(std::vector<std::int64_t> axes, const Indices& extents) const;
  View merge(std::vector<std::int64_t> axes) const;
  View split(int axis, const Indices& extents) const;
  struct Window {
    std::vector<std::int64_t> axes{}, kernel{};
    std::vector<std::int64_t> strides{}, dilations{};  // empty: 1 each
    Indices low{}, high{};
    double value = 0;
  };
  View window(const Window& window) const;
  View pad(const Indices& low, const Indices& high, PadMode mode, double value = 0) const;
  View gather(int axis, View indices) const;
  View concat(View other, int axis) const;

 private:
  View derive(Opcode code, std::vector<ValueId> operands, Attributes attributes) const;
  std::vector<ValueId> operands(std::initializer_list<const Indices*> indices) const;

  KernelBuilder* builder_ = nullptr;
  ValueId id_;
};

class KernelBuilder {
 public:
  explicit KernelBuilder(std::string name);
  // Continues a Kernel with no Block open; the passes' way to add Ops (see open()).
  explicit KernelBuilder(Kernel kernel) : kernel_(std::move(kernel)) {}
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;

  View input(std::string name, Type view_type, int alias_group = 0);
  View output(std::string name, Type view_type, int alias_group = 0);
  View inout(std::string name, Type view_type);
  Expr scalar(std::string name, DType dtype);
  // These run-time extents of parameters are equal: whoever runs the Kernel answers for it.
  void assume_equal(std::vector<ParameterExtent> extents) {
    kernel_.equal_extents.push_back(std::move(extents));
  }

  // Sets the grid: `build` runs with the grid Block open and gives one extent per dimension. Without it there
  // is one program instance.
  void grid(const std::function<Indices()>& build);

  Expr program_id(int axis);
  Expr num_programs(int axis);
  Expr constant(DType dtype, double value);
  Expr constant_integer(DType dtype, std::int64_t value);
  Expr index(std::int64_t value) { return constant_integer(DType::I64, value); }
  Expr splat(Expr scalar, std::vector<std::int64_t> extents);
  Expr zeros(DType dtype, std::vector<std::int64_t> extents);
  Expr full(DType dtype, std::vector<std::int64_t> extents, double value);
  Expr iota(DType dtype, std::vector<std::int64_t> extents, int axis);

  Expr call(Function function, std::span<const Operand> operands);
  Expr cast(Expr value, DType dtype);
  Expr bitcast(Expr value, DType dtype);
  Expr reshape(Expr tile, std::vector<std::int64_t> extents);
  Expr transpose(Expr tile, std::vector<std::int64_t> permutation);
  Expr broadcast(Expr value, std::vector<std::int64_t> extents);
  Expr slice(Expr tile, std::vector<std::int64_t> offsets, std::vector<std::int64_t> extents);
  Expr concat(std::span<const Expr> tiles, int axis);
  // The first result; reduce_all gives all of them. A negative axis counts from the end.
  Expr reduce(Combiner combiner, Expr tile, int axis);
  Exprs reduce_all(Combiner combiner, Expr tile, int axis);
  Exprs scan(Combiner combiner, Expr tile, int axis, bool exclusive = false, bool reverse = false);
  Expr dot(Expr accumulator, Expr a, Expr b, int batch_axes = 0);
  Expr mask(Expr tile, int axis, Index length, double fill);
  Expr assume_range(Expr index, std::int64_t multiple_of, std::int64_t at_least, std::int64_t at_most);

  // At the top of the body only, not within loops or branches.
  View local(DType dtype, const Indices& extents, std::int64_t max_elements);

  using LoopBody = std::function<Exprs(Expr index, const Exprs& carried)>;
  Exprs loop(Index lo, Index hi, Index step, const Exprs& initial, const LoopBody& body);
  void loop(Index lo, Index hi, Index step, const std::function<void(Expr index)>& body);
  using ContractBody = std::function<Exprs(const Exprs& indices, const Exprs& carried)>;
  Exprs contract(const Indices& extents, std::vector<std::int64_t> blocks, const Exprs& initial,
                 const ContractBody& body);
  // Carried and yielded values have the types of `initial`; the body may give a scalar for a one-element
  // tile, the reverse, or what broadcasts.
  Exprs branch(Expr condition, const std::function<Exprs()>& then, const std::function<Exprs()>& otherwise);

  // Ends the body, verifies, and gives the Kernel; the builder is then empty.
  Kernel finish();

  // Low level, for the parser and passes: appends an Op to the open Block; results get the types that
  // infer_types() (verifier.h) derives, or `explicit_types` where the Opcode needs them.
  std::vector<ValueId> append(Opcode code, std::vector<ValueId> operands, Attributes attributes = {},
                              std::vector<Type> explicit_types = {}, std::vector<BlockId> blocks = {});
  ValueId resolve(const Index& index);
  // The number behind an index that is known while building, else kDynamic.
  std::int64_t known(const Index& index) const;
  // New Ops go to the Block opened last.
  void open(BlockId block) { open_.push_back(block); }
  void close() { open_.pop_back(); }
  BlockId add_block(std::span<const Type> argument_types);
  // `value` with exactly this type: equal, or made so by Reshape or Broadcast. Never casts.
  Expr coerce(Expr value, const Type& type);
  Kernel& kernel() { return kernel_; }

 private:
  ValueId add_value(Type type, std::string name = {});
  View parameter(std::string name, Type type, Access access, int alias_group);
  Expr single(Opcode code, std::vector<ValueId> operands, Attributes attributes = {},
              std::vector<Type> explicit_types = {});
  Exprs run_body(BlockId block, std::span<const Type> yielded,
                 const std::function<Exprs(const Exprs&)>& body);

  Kernel kernel_;
  std::vector<BlockId> open_;
  std::vector<std::int64_t> known_;  // by ValueId: the constant that an index is, else kDynamic
};

// Integer operands: / truncates, floordiv and ceildiv round down and up, mod has the sign of the divisor.
Expr operator-(Expr a);
Expr operator~(Expr a);
Expr operator+(Operand a, Operand b);
Expr operator-(Operand a, Operand b);
Expr operator*(Operand a, Operand b);
Expr operator/(Operand a, Operand b);
Expr operator&(Operand a, Operand b);
Expr operator|(Operand a, Operand b);
Expr operator^(Operand a, Operand b);
Expr operator<<(Operand a, Operand count);
Expr operator>>(Operand a, Operand count);
Expr operator<(Operand a, Operand b);
Expr operator<=(Operand a, Operand b);
Expr operator>(Operand a, Operand b);
Expr operator>=(Operand a, Operand b);
Expr floordiv(Operand a, Operand b);
Expr ceildiv(Operand a, Operand b);
Expr mod(Operand a, Operand b);

// Applies a function; at least one operand is an Expr.
Expr apply(Function function, std::initializer_list<Operand> operands);

// One free function per row of elementwise.def that is not an operator above.
#define KILN_UNARY(name, function) \
  inline Expr name(Expr x) { return apply(Function::function, {x}); }
#define KILN_BINARY(name, function) \
  inline Expr name(Operand a, Operand b) { return apply(Function::function, {a, b}); }
KILN_UNARY(abs, Abs)
KILN_UNARY(sign, Sign)
KILN_UNARY(floor, Floor)
KILN_UNARY(ceil, Ceil)
KILN_UNARY(round, Round)
KILN_UNARY(trunc, Trunc)
KILN_UNARY(sqrt, Sqrt)
KILN_UNARY(isnan, IsNan)
KILN_BINARY(rem, Rem)
KILN_BINARY(floormod, FloorMod)
KILN_BINARY(min, Min)
KILN_BINARY(max, Max)
KILN_BINARY(minnum, MinNum)
KILN_BINARY(maxnum, MaxNum)
KILN_BINARY(ldexp, Ldexp)
KILN_BINARY(eq, Eq)
KILN_BINARY(ne, Ne)
KILN_BINARY(lt, Lt)
KILN_BINARY(le, Le)
KILN_BINARY(gt, Gt)
KILN_BINARY(ge, Ge)
KILN_UNARY(exp, Exp)
KILN_UNARY(exp2, Exp2)
KILN_UNARY(expm1, Expm1)
KILN_UNARY(log, Log)
KILN_UNARY(log2, Log2)
KILN_UNARY(log1p, Log1p)
KILN_UNARY(sin, Sin)
KILN_UNARY(cos, Cos)
KILN_UNARY(tan, Tan)
KILN_UNARY(asin, Asin)
KILN_UNARY(acos, Acos)
KILN_UNARY(atan, Atan)
KILN_UNARY(sinh, Sinh)
KILN_UNARY(cosh, Cosh)
KILN_UNARY(tanh, Tanh)
KILN_UNARY(asinh, Asinh)
KILN_UNARY(acosh, Acosh)
KILN_UNARY(atanh, Atanh)
KILN_UNARY(erf, Erf)
KILN_UNARY(sigmoid, Sigmoid)
KILN_UNARY(rsqrt, Rsqrt)
KILN_BINARY(pow, Pow)
KILN_UNARY(gelu, Gelu)
KILN_UNARY(gelu_tanh, GeluTanh)
KILN_UNARY(silu, Silu)
KILN_UNARY(softplus, Softplus)
KILN_UNARY(hardswish, HardSwish)
#undef KILN_UNARY
#undef KILN_BINARY
// a * b + c, rounded once.
inline Expr fma(Operand a, Operand b, Operand c) { return apply(Function::Fma, {a, b, c}); }
inline Expr select(Expr condition, Operand if_true, Operand if_false) {
  return apply(Function::Select, {condition, if_true, if_false});
}

}  // namespace kiln::tile
