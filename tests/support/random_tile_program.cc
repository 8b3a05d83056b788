#include "tests/support/random_tile_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>

#include <fmt/format.h>

#include "ir/tile/builder.h"
#include "ir/tile/primitives.h"
#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

std::vector<Function> all_functions() {
  std::vector<Function> functions;
#define KILN_PRIMITIVE(enumerator, name, arity) functions.push_back(Function::enumerator);
#define KILN_FUNCTION(enumerator, name, arity, ulp) functions.push_back(Function::enumerator);
#include "ir/tile/elementwise.def"
  return functions;
}

class Generator {
 public:
  Generator(std::uint64_t seed, const RandomProgramOptions& options, RandomProgram& program)
      : random_(seed), options_(options), program_(program), k_("random_" + std::to_string(seed)) {
    if (options_.dtypes.empty()) {
      options_.dtypes = {DType::I1,  DType::I8,  DType::I16, DType::I32,  DType::I64, DType::U8, DType::U16,
                         DType::U32, DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64};
    }
  }

  void run() {
    rows_ = pick({1, 2, 3, 4, 5, 8});
    columns_ = pick({1, 2, 3, 4, 7, 8, 16, 17, 32});
    height_ = number(1, 23);
    width_ = number(1, 70);
    make_parameters();
    if (chance(50)) assume_equal_extents();
    k_.grid([&]() -> Indices {
      // Programs may lie behind the end of everything.
      const std::int64_t more = chance(25) ? number(1, 2) : 0;
      return {ceildiv(outputs_[0].dim(0), rows_) + more, ceildiv(outputs_[0].dim(1), columns_)};
    });
    row_ = k_.program_id(0) * rows_;
    column_ = k_.program_id(1) * columns_;
    for (int i = 0; i < 3; ++i) add(load(any_dtype()));
    steps(options_.steps, 0);
    store_outputs();
    program_.kernel = k_.finish();
  }

 private:
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return number(0, 99) < percent; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[number(0, std::ssize(choices) - 1)];
  }
  template <typename T>
  const T& pick(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(number(0, std::ssize(choices) - 1))];
  }
  DType any_dtype() { return pick(options_.dtypes); }

  // --- parameters

  // Values of every kind: small, any bits, and the special ones.
  std::uint64_t random_bits(DType dtype) {
    return with_element_type(dtype, [&]<typename T>() -> std::uint64_t {
      if constexpr (std::is_same_v<T, bool>) {
        return static_cast<std::uint64_t>(number(0, 1));
      } else {
        using W = Wide<T>;
        const auto kind = number(0, 9);
        if constexpr (kIsFloat<T>) {
          using Limits = std::numeric_limits<W>;
          if (kind == 0) {
            return bits_of(static_cast<T>(pick({W{0}, -W{0}, Limits::infinity(), -Limits::infinity(),
                                                Limits::quiet_NaN(), Limits::denorm_min(), Limits::max()})));
          }
          if (kind == 1) return bits_of(from_bits<T>(random_()));
          return bits_of(static_cast<T>(static_cast<W>(std::normal_distribution<double>(0, 3)(random_))));
        } else {
          using Limits = std::numeric_limits<T>;
          if (kind == 0) return bits_of(pick({T{0}, T{1}, Limits::min(), Limits::max(), static_cast<T>(-1)}));
          if (kind == 1) return bits_of(static_cast<T>(random_()));
          return bits_of(static_cast<T>(number(std::is_signed_v<T> ? -9 : 0, 9)));
        }
      }
    });
  }

  // Memory with gaps between rows and room on both sides that must stay as it is.
  RandomProgram::Buffer& make_buffer(DType dtype, std::vector<std::int64_t> extents, bool is_output) {
    RandomProgram::Buffer buffer{
        dtype, {}, number(0, 3), extents, std::vector<std::int64_t>(extents.size()), is_output};
    std::int64_t stride = 1;
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      buffer.strides[axis] = stride;
      stride = stride * extents[axis] + (axis > 0 && chance(30) ? number(1, 5) : 0);
    }
    const std::int64_t elements = buffer.offset + stride + 3;
    const auto size = static_cast<std::size_t>(byte_size(dtype, 1));
    buffer.bytes.resize(size * static_cast<std::size_t>(elements));
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::uint64_t bits = random_bits(dtype);
      std::memcpy(buffer.bytes.data() + static_cast<std::size_t>(i) * size, &bits, size);
    }
    program_.buffers.push_back(std::move(buffer));
    return program_.buffers.back();
  }

  Type view_type(const RandomProgram::Buffer& buffer) {
    std::vector<std::int64_t> extents = buffer.extents, strides = buffer.strides;
    for (std::int64_t& extent : extents) {
      if (chance(60)) extent = kDynamic;
    }
    for (std::size_t axis = 0; axis + 1 < strides.size(); ++axis) {
      if (chance(60)) strides[axis] = kDynamic;
    }
    return Type::view(buffer.dtype, extents, strides);
  }

  void make_parameters() {
    for (const DType dtype : options_.dtypes) {
      const bool is_full = chance(50);
      const RandomProgram::Buffer& buffer =
          make_buffer(dtype, {is_full ? height_ : number(1, 30), is_full ? width_ : number(1, 80)}, false);
      inputs_.push_back(k_.input("in_" + std::string(kiln::name(dtype)), view_type(buffer)));
    }
    // In range for any axis of an input, from either end.
    for (std::size_t i = 0; i < inputs_.size(); ++i) gather_extents_.push_back(program_.buffers[i].extents);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::size_t target = static_cast<std::size_t>(number(0, std::ssize(inputs_) - 1));
      const std::int64_t axis = number(0, 1);
      const std::int64_t extent = gather_extents_[target][static_cast<std::size_t>(axis)];
      RandomProgram::Buffer& buffer = make_buffer(pick({DType::I32, DType::I64}), {number(1, 40)}, false);
      const auto size = static_cast<std::size_t>(byte_size(buffer.dtype, 1));
      for (std::size_t at = 0; at < buffer.bytes.size(); at += size) {
        const std::int64_t index = number(-extent, extent - 1);
        std::memcpy(buffer.bytes.data() + at, &index, size);
      }
      indices_.push_back({k_.input("indices_" + std::to_string(i), view_type(buffer)), target, axis});
    }
    for (const DType dtype : options_.dtypes) {
      const RandomProgram::Buffer& buffer = make_buffer(dtype, {height_, width_}, true);
      outputs_.push_back(k_.output("out_" + std::string(kiln::name(dtype)), view_type(buffer)));
    }
  }

  void assume_equal_extents() {
    std::map<std::int64_t, std::vector<ParameterExtent>> groups;
    const auto look_at = [&](const View& view, const std::vector<std::int64_t>& extents) {
      for (std::size_t axis = 0; axis < extents.size(); ++axis) {
        if (view.type().extents[axis] != kDynamic || chance(20)) continue;
        groups[extents[axis]].push_back({view.id(), static_cast<int>(axis)});
      }
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) look_at(inputs_[i], gather_extents_[i]);
    for (const View& output : outputs_) look_at(output, {height_, width_});
    for (auto& [extent, group] : groups) {
      if (group.size() > 1) k_.assume_equal(std::move(group));
    }
  }

  // --- tiles. Every one in the pool broadcasts to rows_ x columns_.

  void add(Expr tile) { pool_.push_back(tile); }

  std::vector<std::int64_t> random_shape() {
    if (chance(70)) return {rows_, columns_};
    return {chance(50) ? rows_ : 1, chance(50) ? columns_ : 1};
  }

  Expr any_of(DType dtype) {
    std::vector<Expr> found;
    for (const Expr& tile : pool_) {
      if (tile.type().element == dtype) found.push_back(tile);
    }
    if (!found.empty() && chance(85)) return pick(found);
    if (chance(30)) {
      const Literal literal{dtype, random_bits(dtype)};
      const Type type = chance(50) ? Type::scalar(dtype) : Type::tile(dtype, random_shape());
      return {&k_, k_.append(Opcode::Constant, {}, {.literal = literal}, {type}).front()};
    }
    return chance(50) ? load(dtype) : k_.cast(finite(pick(pool_)), dtype);
  }

  // NaN has many patterns, which must not be seen.
  Expr finite(Expr tile) {
    if (!is_float(tile.type().element)) return tile;
    return select(isnan(tile), 0, tile);
  }

  // --- loads through random views

  Expr load(DType dtype) {
    const auto at = static_cast<std::size_t>(
        std::find(options_.dtypes.begin(), options_.dtypes.end(), dtype) - options_.dtypes.begin());
    if (at == options_.dtypes.size()) return k_.cast(load(options_.dtypes[0]), dtype);
    View view = inputs_[at];
    const double fill = chance(50) ? 0 : static_cast<double>(number(0, 1));
    std::vector<std::int64_t> shape = random_shape();
    for (std::int64_t i = number(0, 3); i > 0; --i) view = derive(view, at);
    Indices index = {row_, column_};
    if (chance(30)) index = {number(-3, 5), number(-3, 40)};
    const std::int64_t kind = number(0, 9);
    if (kind == 0) {  // a kernel axis behind the windowed one
      view = view.window({.axes = {1},
                          .kernel = {number(1, 3)},
                          .strides = {number(1, 2)},
                          .dilations = {number(1, 2)},
                          .low = {number(0, 2)},
                          .high = {number(0, 2)},
                          .value = static_cast<double>(number(0, 1))});
      return k_.reshape(view.load({index[0], index[1], number(0, 2)}, {shape[0], shape[1], 1}, fill), shape);
    }
    if (kind == 1) {
      view = view.broadcast({number(0, 2)}, {number(1, 3)});
      std::vector<std::int64_t> box = {1, shape[0], shape[1]};
      if (chance(50)) return k_.reshape(view.load({number(0, 2), index[0], index[1]}, box, fill), shape);
      return k_.reshape(view.load({index[0], number(0, 2), index[1]}, {shape[0], 1, shape[1]}, fill), shape);
    }
    return view.load(index, shape, fill);
  }

  // A view of rank 2 of one of rank 2.
  View derive(View view, std::size_t input) {
    switch (number(0, 6)) {
      case 0: {
        const std::int64_t row_step = pick({1, 1, 2, -1}), column_step = pick({1, 1, 3, -1});
        return view.slice({number(0, 6), number(0, 12)}, {number(1, 20), number(1, 60)},
                          {row_step, column_step});
      }
      case 1:
        return view.transpose({1, 0});
      case 2:
        return view.pad({number(-1, 3), number(-1, 4)}, {number(-1, 3), number(-1, 4)},
                        pick({PadMode::Constant, PadMode::Edge, PadMode::Reflect, PadMode::Wrap}),
                        static_cast<double>(number(0, 1)));
      case 3: {
        for (const GatherIndices& indices : indices_) {
          if (indices.input == input && view.id() == inputs_[input].id()) {
            return view.gather(static_cast<int>(indices.axis), indices.view);
          }
        }
        return view;
      }
      case 4:
        return view.merge({0, 1}).split(0, {number(1, 40), number(1, 40)});
      case 5:
        return view.concat(view, 0);
      default:
        return view;
    }
  }

  // --- operations

  void steps(int count, int depth) {
    for (int i = 0; i < count; ++i) step(depth);
  }

  void step(int depth) {
    switch (number(0, 19)) {
      case 0:
        add(load(any_dtype()));
        return;
      case 1:
        add(k_.cast(finite(pick(pool_)), any_dtype()));
        return;
      case 2: {
        const Expr tile = full_tile();
        add(k_.mask(tile, static_cast<int>(number(0, 1)), number(-1, 20), static_cast<double>(number(0, 1))));
        return;
      }
      case 3:
        reduction();
        return;
      case 4: {
        const Expr tile = full_tile();
        const DType dtype = tile.type().element;
        if (!is_float(dtype) && dtype != DType::I1) add(tile + iota(dtype));
        return;
      }
      case 5: {
        const Expr tile = full_tile();
        const std::int64_t cut = number(0, columns_ - 1);
        if (cut == 0) return;
        const Expr left = k_.slice(tile, {0, 0}, {rows_, cut});
        const Expr right = k_.slice(tile, {0, cut}, {rows_, columns_ - cut});
        add(k_.concat(std::vector<Expr>{right, left}, 1));
        return;
      }
      case 6:
        bit_cast();
        return;
      case 7:
        if (depth < 2) loop(depth);
        return;
      case 8:
        if (depth < 2) branch(depth);
        return;
      case 9:
        if (depth == 0) through_local();
        return;
      default:
        elementwise();
    }
  }

  Expr full_tile() { return k_.broadcast(pick(pool_), {rows_, columns_}); }
  Expr iota(DType dtype) { return k_.iota(dtype, {rows_, columns_}, static_cast<int>(number(0, 1))); }

  void elementwise() {
    static const std::vector<Function> functions = all_functions();
    const Function function = pick(functions);
    const DType dtype = any_dtype();
    if (options_.allows && !options_.allows(function, dtype)) return;
    std::vector<Operand> operands;
    for (int i = 0; i < arity(function); ++i) operands.emplace_back(any_of(dtype));
    const bool divides =
        function == Function::Div || function == Function::Rem || function == Function::FloorMod;
    if (divides && is_integer(dtype)) operands[1] = operands[1] | 1;
    if (function == Function::Select) operands[0] = any_of(DType::I1);
    if (function == Function::Ldexp) {
      operands[1] = any_of(dtype == DType::F64 ? DType::I64 : DType::I32);
    }
    // A dtype that the function does not take.
    std::vector<Type> types;
    for (const Operand& operand : operands) types.push_back(operand.expr.type());
    if (!takes(function, dtype)) return;
    Expr result = k_.call(function, operands);
    if (result.type().is_scalar()) result = k_.splat(result, {1, 1});
    add(result);
  }

  static bool takes(Function function, DType dtype) {
    std::vector<Type> types(static_cast<std::size_t>(arity(function)), Type::scalar(dtype));
    if (function == Function::Select) types[0].element = DType::I1;
    if (function == Function::Ldexp) types[1].element = dtype == DType::F64 ? DType::I64 : DType::I32;
    try {
      infer_types(Opcode::Elementwise, types, {.function = function}, {});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  void bit_cast() {
    const Expr tile = finite(pick(pool_));
    for (const DType dtype : options_.dtypes) {
      if (dtype != DType::I1 && tile.type().element != DType::I1 && dtype != tile.type().element &&
          bits(dtype) == bits(tile.type().element)) {
        add(k_.bitcast(tile, dtype));
        return;
      }
    }
  }

  // Reductions that give the same bits in any order; the others if asked for.
  void reduction() {
    const Expr tile = full_tile();
    const DType dtype = tile.type().element;
    std::vector<Combiner> combiners;
    if (dtype == DType::I1) {
      combiners = {Combiner::And, Combiner::Or};
    } else {
      combiners = {Combiner::Min, Combiner::Max, Combiner::ArgMax, Combiner::ArgMin};
      if (is_integer(dtype))
        combiners.insert(combiners.end(), {Combiner::Sum, Combiner::Prod, Combiner::And});
      if (is_float(dtype) && options_.inexact_reductions) {
        combiners.insert(combiners.end(),
                         {Combiner::Sum, Combiner::Prod, Combiner::LogSumExp, Combiner::Welford});
      }
    }
    const Combiner combiner = pick(combiners);
    const int axis = static_cast<int>(number(0, 1));
    // NaN first, or last: which of several wins is seen only in its pattern.
    if (chance(30) && combiner != Combiner::ArgMax && combiner != Combiner::ArgMin) {
      for (const Expr& result : k_.scan(combiner, tile, axis, chance(30), chance(30))) add(result);
      return;
    }
    for (const Expr& result : k_.reduce_all(combiner, tile, axis)) {
      add(k_.reshape(
          result, axis == 0 ? std::vector<std::int64_t>{1, columns_} : std::vector<std::int64_t>{rows_, 1}));
    }
  }

  void loop(int depth) {
    const Expr initial = full_tile();
    const DType dtype = initial.type().element;
    const std::int64_t trips = number(0, 3), step_size = number(1, 3);
    const std::size_t outside = pool_.size();
    const Exprs results =
        k_.loop(0, trips, step_size, {initial}, [&](Expr index, const Exprs& carried) -> Exprs {
          add(carried[0]);
          const Expr saved = row_;
          row_ = row_ + index;
          steps(3, depth + 1);
          row_ = saved;
          return {k_.broadcast(any_of(dtype), {rows_, columns_})};
        });
    pool_.resize(outside);
    add(results[0]);
  }

  void branch(int depth) {
    const DType dtype = any_dtype();
    const Expr condition = eq(floormod(k_.program_id(0) + k_.program_id(1), 2), number(0, 1));
    const std::size_t outside = pool_.size();
    const auto side = [&]() -> Exprs {
      steps(2, depth + 1);
      const Expr result = k_.broadcast(any_of(dtype), {rows_, columns_});
      pool_.resize(outside);
      return {result};
    };
    add(k_.branch(condition, side, side)[0]);
  }

  void through_local() {
    const Expr tile = full_tile();
    const View local = k_.local(tile.type().element, {rows_, columns_}, rows_ * columns_);
    local.store({0, 0}, tile);
    add(local.load({number(0, rows_ - 1), number(0, columns_ - 1)}, {rows_, columns_}));
  }

  void store_outputs() {
    for (const View& output : outputs_) {
      const Expr value = k_.broadcast(any_of(output.type().element), {rows_, columns_});
      if (chance(30)) {
        output.transpose({1, 0}).store({column_, row_}, k_.transpose(value, {1, 0}));
      } else {
        output.store({row_, column_}, value);
      }
    }
  }

  struct GatherIndices {
    View view;
    std::size_t input;
    std::int64_t axis;
  };

  std::mt19937_64 random_;
  RandomProgramOptions options_;
  RandomProgram& program_;
  KernelBuilder k_;
  std::int64_t rows_ = 1, columns_ = 1, height_ = 1, width_ = 1;
  std::vector<View> inputs_, outputs_;
  std::vector<std::vector<std::int64_t>> gather_extents_;
  std::vector<GatherIndices> indices_;
  Expr row_, column_;
  std::vector<Expr> pool_;
};

}  // namespace

RandomProgram::RandomProgram(std::uint64_t seed, const RandomProgramOptions& options) {
  Generator(seed, options, *this).run();
}

std::vector<Argument> RandomProgram::arguments(std::vector<Buffer>& buffers) {
  std::vector<Argument> arguments;
  for (Buffer& buffer : buffers) {
    arguments.push_back(ViewArgument{buffer.bytes, buffer.offset, buffer.extents, buffer.strides});
  }
  return arguments;
}

std::string difference(std::span<const RandomProgram::Buffer> want,
                       std::span<const RandomProgram::Buffer> got) {
  for (std::size_t b = 0; b < want.size(); ++b) {
    const DType dtype = want[b].dtype;
    const auto size = static_cast<std::size_t>(byte_size(dtype, 1));
    for (std::size_t at = 0; at < want[b].bytes.size(); at += size) {
      Literal expected{dtype, 0}, found{dtype, 0};
      std::memcpy(&expected.bits, want[b].bytes.data() + at, size);
      std::memcpy(&found.bits, got[b].bytes.data() + at, size);
      if (expected.bits == found.bits) continue;
      if (is_float(dtype) && std::isnan(expected.as_number()) && std::isnan(found.as_number())) continue;
      return fmt::format("buffer {} of {}, element {}: got {} ({:#x}), expected {} ({:#x})", b,
                         kiln::name(dtype), at / size, found.as_number(), found.bits, expected.as_number(),
                         expected.bits);
    }
  }
  return {};
}

}  // namespace kiln::tile
