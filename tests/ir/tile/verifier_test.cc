// One violation for each rule, told apart by its message.
#include "ir/tile/verifier.h"

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/ir/tile/tile_text_testing.h"

namespace kiln::tile {
namespace {

struct Violation {
  const char* body;
  const char* fragment;
};

void expect_violations(const std::vector<Violation>& violations) {
  for (const Violation& violation : violations) {
    const std::string message = error_of(kernel_text(violation.body));
    EXPECT_NE(message.find(violation.fragment), std::string::npos)
        << violation.body << "\nsays: " << message << "\nexpected: " << violation.fragment;
  }
}

TEST(Verifier, RefusesWrongValues) {
  expect_violations({
      {"%a = const 300 : i8", "out of the range of i8"},
      {"%a = const 1.0 : tile<0x4xf32>", "extent 0, expected at least 1"},
      {"%a = const 1.0 : tile<2x2x2x2x2x2x2xf32>", "7 axes other than 1, expected at most 6"},
      {"%a = const 1.0 : tile<1x1x1x1x1x1x1x1x1x1x1xf32>", "11 axes, expected 1 to 10"},
      {"%a = const 1.0 : tile<4097x4096xf32>", "more than 16777216 elements"},
      {"%a = const 1.0 : view<4xf32>", "got a number, expected view<4xf32>"},
      {"%a = iota axis 0 : tile<4xf32>", "iota: result is tile<4xf32>, expected a tile of integers"},
      {"%a = iota axis 1 : tile<4xi32>", "axis 1 is outside 0 .. 0"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = reshape %a : tile<5xi32>", "same dtype and number of elements"},
      {"%a = iota axis 0 : tile<4x2xi32>\n%b = transpose %a [0, 0]",
       "[0, 0] are not a permutation of 2 axes"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = broadcast %a : tile<4x2xi32>", "do not broadcast"},
      {"%a = iota axis 0 : tile<2xi32>\n%b = broadcast %a : tile<1xi32>",
       "extents equal or 1 from the right"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = slice %a[3] : tile<2xi32>", "offset 3 and extent 2 on axis 0"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = slice %a[0, 0] : tile<2xi32>",
       "one offset and one extent per axis"},
      {"%a = iota axis 0 : tile<4x2xi32>\n%b = concat %a, %a axis 2", "axis 2 is outside 0 .. 1"},
      {"%a = iota axis 0 : tile<4x2xi32>\n%c = iota axis 0 : tile<4x3xi32>\n%b = concat %a, %c axis 0",
       "expected the extents of operand 0 but on axis 0"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = bitcast %a to i64", "dtypes of equal width"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = cast %a to string", "a dtype that kernels do not have"},
      {"%a = iota axis 0 : tile<4xi32>\n%b = mask %a axis 0 length %n fill (1.0 : f32)",
       "got f32, expected i32"},
  });
}

TEST(Verifier, RefusesWrongElementwiseOperands) {
  const std::string tiles = "%a = iota axis 0 : tile<4xi32>\n%f = cast %a to f32\n%c = lt(%a, 2)\n";
  const std::vector<Violation> violations = {
      {"%b = add %a, %f", "add: operands are i32 and f32, expected one dtype"},
      {"%b = sqrt %a", "sqrt: operand is i32, expected f16, bf16, f32 or f64"},
      {"%b = exp %a", "exp: operand is i32"},
      {"%b = shl %f, %f", "shl: operand is f32, expected an integer"},
      {"%b = and %f, %f", "and: operand is f32, expected an integer or i1"},
      {"%b = add %c, %c", "add: operand is i1, expected an integer or float"},
      {"%b = select %a, %f, %f", "select: operand 0 is tile<4xi32>, expected i1"},
      {"%b = ldexp %f, %f", "ldexp: operand 1 is tile<4xf32>, expected i32"},
      {"%b = neg %x", "operand 0 is view<?x?xf32>, expected a scalar or a tile"},
      {"%s = cast %f to f8e4m3fn\n%b = neg %s", "neg: operand is f8e4m3fn"},
      {"%s = iota axis 0 : tile<3xi32>\n%b = add %a, %s", "do not broadcast"},
      {"%b = reduce and %f axis 0", "reduce and: operand is f32, expected an integer or i1"},
      {"%b, %d = reduce logsumexp %a axis 0", "reduce logsumexp: operand is i32"},
      {"%b = reduce sum %n axis 0", "reduce sum: operand 0 is i64, expected a tile"},
      {"%b, %d = scan argmax %a axis 0 exclusive", "exclusive has no first value"},
  };
  for (const Violation& violation : violations) {
    const std::string message = error_of(kernel_text(tiles + violation.body));
    EXPECT_NE(message.find(violation.fragment), std::string::npos) << violation.body << "\nsays: " << message;
  }
}

TEST(Verifier, RefusesWrongDots) {
  const std::string tiles =
      "%acc = const 0.0 : tile<4x8xf32>\n%a = const 0.0 : tile<4x16xf32>\n%b = const 0.0 : tile<16x8xf32>\n"
      "%i = const 0 : tile<4x8xi32>\n%h = cast %a to f16\n";
  const std::vector<Violation> violations = {
      {"%d = dot %acc, %a, %a", "the last axis of a and the first of b differ"},
      {"%d = dot %acc, %b, %a", "the last axis of a and the first of b differ"},
      {"%d = dot %a, %a, %b", "the free axes of a, then of b, must be the accumulator's"},
      {"%d = dot %acc, %h, %b", "f16 by f32 into f32"},
      {"%d = dot %i, %a, %b", "f32 by f32 into i32"},
      {"%d = dot %acc, %a, %b batch 1", "batch extents differ"},
      {"%d = dot %acc, %a, %b batch 3", "an operand has fewer axes"},
      {"%d = dot %n, %a, %b", "operand 0 is i64, expected a tile"},
  };
  for (const Violation& violation : violations) {
    std::string text = kernel_text(tiles + violation.body);
    text.replace(text.find(", %i: view<?xi32>"), 17, "");
    const std::string message = error_of(text);
    EXPECT_NE(message.find(violation.fragment), std::string::npos) << violation.body << "\nsays: " << message;
  }
}

TEST(Verifier, RefusesWrongViews) {
  expect_violations({
      {"%d = dim %x, 2", "axis 2 is outside 0 .. 1"},
      {"%v = slice_view %x[0 : %n]", "got 3 operands, expected 5"},
      {"%v = slice_view %x[0 : %n, 0 : %n : 0]", "a step is 0"},
      {"%v = transpose_view %x [1]", "not a permutation of 2 axes"},
      {"%v = broadcast_view %x axes [2, 0] extents [1, 1]", "must ascend within 0 .. 3"},
      {"%v = broadcast_view %x axes [0, 1] extents [%n]", "got 2 operands, expected 3"},
      {"%v = broadcast_view %x axes [0,1,2,3,4,5,6,7,8] extents [1,1,1,1,1,1,1,1,1]",
       "11 axes, expected 0 to 10"},
      {"%v = merge %x [0]", "expected two or more adjacent ones"},
      {"%v = split %x axis 0 extents [%n]", "got 2 operands, expected at least 3"},
      {"%v = window %x axes [0, 1] kernel [3]", "2 axes, 1 kernel extents"},
      {"%v = window %x axes [0] kernel [0]", "must be in 1 .. 2147483647"},
      {"%v = window %x axes [0] kernel [3] pad [1, 1]", "window pads 2 and 2 axes, expected 1"},
      {"%v = pad %x low [1] high [1]", "got 3 operands, expected 5"},
      {"%v = gather %x axis 0 indices %x", "indices are view<?x?xf32>, expected integers"},
      {"%v = concat_view %x, %i axis 0", "expected the same rank and dtype"},
      {"%l = load %x[0] : tile<4xf32>", "expected the view, 2 indices and 0 more"},
      {"%l = load %x[0, 0] : tile<4xf16>", "expected one dtype"},
      {"%l = load %x[0, 0] : tile<2x4x4xf32>", "expected extent 1 on the 1 leading axes"},
      {"%l = load %n[0] : f32", "expected a view"},
      {"store %y[0, 0], %n", "value is i64 and view is view<?x?xf32>"},
      {"store %x[0, 0], 1.0", "%x is an input; declare it out or inout"},
      {"%v = broadcast_view %y axes [0] extents [2]\nstore %v[0, 0, 0], 1.0",
       "made by broadcast_view may show"},
      {"%v = window %y axes [0] kernel [2]\nstore %v[0, 0, 0], 1.0", "made by window may show"},
      {"%v = pad %y low [1, 1] high [1, 1] edge\nstore %v[0, 0], 1.0", "made by pad may show"},
      {"%v = concat_view %y, %y axis 0\nstore %v[0, 0], 1.0", "made by concat_view may show"},
      {"%v = concat_view %y, %x axis 0\nstore %v[0, 0], 1.0", "%x is an input"},
      {"%h = cast (load %x[0, 0] : f32) to f16\nlocal %s : view<4xf16>\natomic_add %s[0], %h",
       "32 or 64 bits"},
      {"local %s : view<4x?xf32> [%n] max 2", "expected 4 to 2147483648"},
      {"local %s : view<4x?xf32> max 8", "got 0 operands, expected 1"},
      {"local %s : view<4x4xf32, strides = [1, 4]> max 16", "is not row-major"},
      {"if lt(%n, 1) { local %s : view<4xf32> }", "top of the body"},
      {"%p = program_id 0\nlocal %s : view<?xf32> [%p] max 8", "must follow from parameters"},
  });
}

TEST(Verifier, RefusesWrongControl) {
  expect_violations({
      {"%p = program_id 1", "axis 1 of a grid of 1 dimensions"},
      {"%p = program_id 6", "axis 6 is outside 0 .. 5"},
      {"for %j = 0 to %n step %n { }", "must be a constant of at least 1"},
      {"for %j = 0 to %n step 0 { }", "must be a constant of at least 1"},
      {"for %j = 0 to %n step -1 { }", "must be a constant of at least 1"},
      {"%s = for %j = 0 to %n carry (%a = 0.0 : f32) { yield 1 : f32 }", "expected '}'"},
      {"%s = for %j = 0 to %n carry (%a = 0.0 : f32) { }", "expected 'yield' of 1 values"},
      {"%s = for %j = 0 to %n carry (%a = 0.0 : f32) { yield %j }", "got i64, expected f32"},
      {"%s = for %j = 0 to %n carry (%a = 0.0 : f32) { yield %a, %a }", "yields 2 values, expected 1"},
      {"%s = for %j = 0 to %n carry (%a = %x) { yield %a }", "a view cannot be carried"},
      {"%s = if lt(%n, 1) { yield %n }", "expected 'else'"},
      {"%s = if %n { yield %n } else { yield %n }", "got i64, expected i1"},
      {"%s = if lt(%n, 1) { yield %x } else { yield %x }",
       "operand 0 is view<?x?xf32>, expected a scalar or a tile"},
      {"%s = contract (%k : 0) in (%n) carry (%a = 0.0 : f32) { yield %a }",
       "block 0 of index 0, expected at least 1"},
      {"%s = contract (%k : 4, %l : 4) in (%n) carry (%a = 0.0 : f32) { yield %a }",
       "2 indices in 1 extents"},
      {"%s = contract (%k : 4) in (%n) carry (%a = 0.0 : f32) { yield exp(%a) }",
       "may only be accumulated into"},
      {"%s = contract (%k : 4) in (%n) carry (%a = 0.0 : f32) { yield %a + %a }",
       "may only be accumulated into"},
      {"%s = contract (%k : 4) in (%n) carry (%a = 0.0 : f32) { yield 1.0 - %a }",
       "may only be accumulated into"},
      {"%s = contract (%k : 4) in (%n) carry (%a = 0.0 : f32) { yield (%a + 1.0) * 2.0 }",
       "may only be accumulated"},
      {"%s = contract (%k : 4) in (%n) carry (%a = 0.0 : f32) { yield 1.0 }",
       "does not accumulate into carried"},
      {"%s, %t = contract (%k : 4) in (%n) carry (%a = 0.0 : f32, %b = 0.0 : f32) { yield %b, %a }",
       "may only be"},
      {"%s = contract (%k : 4) in (%n) carry (%a = 0.0 : f32) { if lt(%n, 1) { print %a, \"\" }\nyield %a }",
       "may only be accumulated into"},
      {"%m = assume %n multiple_of 0", "expected a positive multiple"},
      {"%m = assume %n in [5, 4]", "a range that is not empty"},
      {"assert %n, \"\"", "got i64, expected i1"},
      {"print %x, \"\"", "expected a scalar or a tile"},
  });
}

TEST(Verifier, RefusesWrongHeaders) {
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"kernel @k(%n: out i64) grid [1] { }", "scalar parameter %n can only be an input"},
      {"kernel @k(%x: tile<4xf32>) grid [1] { }", "expected a scalar or a memory view"},
      {"kernel @k(%x: view<4xstring>) grid [1] { }", "a dtype that kernels do not have"},
      {"kernel @k(%x: view<4xf32, align = 3>) grid [1] { }", "expected a power of two"},
      {"kernel @k(%x: view<1x1x1x1x1x1x1x1x1x1x1xf32>) grid [1] { }", "has 11 axes, expected 0 to 10"},
      {"kernel @k() grid [] { }", "grid has 0 dimensions, expected 1 to 6"},
      {"kernel @k() grid [1, 1, 1, 1, 1, 1, 1] { }", "grid has 7 dimensions"},
      {"kernel @k(%x: view<4xi64>) grid [load %x[0] : i64] { }", "a grid is made of scalar arithmetic"},
      {"kernel @k(%x: view<4xi64>) grid [reduce sum (iota axis 0 : tile<4xi64>) axis 0] { }",
       "a grid is made of"},
      {"kernel @k(%x: view<4xi64>) grid { yield 1.0 } { }", "number without a type"},
      {"kernel @k(%x: view<4xi64>) grid { yield (1.0 : f32) } { }", "yields value"},
      {"kernel @k(%x: view<?x4xf32>) assume %x[0] grid [1] { }", "one extent is equal, expected two"},
      {"kernel @k(%x: view<?x4xf32>) assume %x[0] = %x[1] grid [1] { }", "expected a run-time extent"},
      {"kernel @k(%x: view<?x?xf32>) assume %x[0] = %x[2] grid [1] { }", "%x has no axis 2"},
      {"kernel @k(%x: view<?xf32>) assume %x[0] = %y[0] grid [1] { }", "%y is not defined here"},
      {"kernel @k(%x: view<?xf32>, %n: i64) assume %x[0] = %n[0] grid [1] { }", "%n has no axis 0"},
      {"kernel @k(%x: view<?xf32>) assume %x[0] = %x[0] grid [1] { }", "extent 0 of %x twice"},
      {"kernel @k(%x: view<?xf32>, %z: view<?x?xf32>) assume %x[0] = %z[0] assume %z[1] = %z[0] grid [1] { }",
       "extent 0 of %z twice"},
  };
  for (const auto& [text, fragment] : headers) {
    const std::string message = error_of(text);
    EXPECT_NE(message.find(fragment), std::string::npos) << text << "\nsays: " << message;
  }
}

// Damage that text cannot express, done to a good Kernel.
TEST(Verifier, RefusesBrokenStructure) {
  const Kernel good =
      parse_one(kernel_text("%a = const 1.0 : f32\n%b = add %a, %a\nif lt(%n, 1) { %c = neg %b\nstore %y[0, "
                            "0], %c }\nstore %y[0, 0], %b"));
  verify(good);
  const auto op_named = [](Kernel& kernel, Opcode code) -> Op& {
    for (Op& op : kernel.ops) {
      if (op.code == code) return op;
    }
    throw std::logic_error("no such op");
  };
  const auto value_named = [](const Kernel& kernel, std::string_view name) {
    for (std::uint32_t i = 0; i < kernel.values.size(); ++i) {
      if (kernel.values[i].name == name) return ValueId{i};
    }
    throw std::logic_error("no such value");
  };
  struct Damage {
    const char* fragment;
    std::function<void(Kernel&)> apply;
  };
  const std::vector<Damage> damages = {
      {"uses %b before its definition",
       [&](Kernel& k) { op_named(k, Opcode::Elementwise).operands[0] = value_named(k, "b"); }},
      {"does not enclose this op",
       [&](Kernel& k) {
         std::vector<OpId>& ops = k.blocks[k.body.index].ops;
         k.ops[ops[ops.size() - 2].index].operands.back() = value_named(k, "c");
       }},
      {"refers to %99", [&](Kernel& k) { op_named(k, Opcode::Elementwise).operands[0] = ValueId{99}; }},
      {"is defined twice",
       [&](Kernel& k) { op_named(k, Opcode::Elementwise).results[0] = value_named(k, "a"); }},
      {"is in two places",
       [&](Kernel& k) {
         k.blocks[k.body.index].ops.insert(k.blocks[k.body.index].ops.begin(), k.blocks[k.body.index].ops[0]);
       }},
      {"a block ends in yield, and only there", [&](Kernel& k) { k.blocks[k.body.index].ops.pop_back(); }},
      {"this one is empty", [&](Kernel& k) { k.blocks[k.body.index].ops.clear(); }},
      {"is used twice",
       [&](Kernel& k) { op_named(k, Opcode::If).blocks[1] = op_named(k, Opcode::If).blocks[0]; }},
      {"has 1 blocks, expected 2", [&](Kernel& k) { op_named(k, Opcode::If).blocks.pop_back(); }},
      {"has 0 results, expected 1", [&](Kernel& k) { op_named(k, Opcode::Elementwise).results.clear(); }},
      {"result 0 is f32, got i64",
       [&](Kernel& k) { k.values[value_named(k, "b").index].type = Type::index(); }},
      {"refers to block", [&](Kernel& k) { k.body = BlockId{77}; }},
      {"refers to op", [&](Kernel& k) { k.blocks[k.body.index].ops[0] = OpId{1000}; }},
      {"kernel name ''", [&](Kernel& k) { k.name.clear(); }},
      {"its block has 1 arguments, expected 0",
       [&](Kernel& k) { k.blocks[k.body.index].arguments.push_back(value_named(k, "a")); }},
      {"has bits beyond those of f32",
       [&](Kernel& k) { k.ops[k.blocks[k.body.index].ops[0].index].attributes.literal->bits = UINT64_MAX; }},
  };
  for (const Damage& damage : damages) {
    Kernel kernel = good;
    damage.apply(kernel);
    try {
      verify(kernel);
      ADD_FAILURE() << "verified, expected: " << damage.fragment;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(damage.fragment), std::string::npos)
          << error.what() << "\nexpected: " << damage.fragment;
      EXPECT_NE(std::string(error.what()).find("kernel="), std::string::npos) << error.what();
    }
  }
}

TEST(Verifier, BoundsWhatIsFollowedStepByStep) {
  std::string views = "%v0 = transpose_view %x [1, 0]\n", locals;
  for (int i = 1; i < 65; ++i) views += fmt::format("%v{} = transpose_view %v{} [1, 0]\n", i, i - 1);
  EXPECT_NE(error_of(kernel_text(views)).find("views are derived more than 64 deep"), std::string::npos);
  for (int i = 0; i < 257; ++i) locals += fmt::format("local %l{} : view<4xf32>\n", i);
  EXPECT_NE(error_of(kernel_text(locals)).find("has more than 256 locals"), std::string::npos);
}

TEST(Verifier, NamesKernelOpAndValue) {
  const std::string message = error_of(kernel_text("%v = program_id 1"));
  EXPECT_NE(message.find("[kernel=k, op=program_id, value=%v]"), std::string::npos) << message;
}

TEST(DotShape, DropsUnitAxesAndFindsADroppedContraction) {
  const auto f32 = [](std::vector<std::int64_t> extents) {
    return Type::tile(DType::F32, std::move(extents));
  };
  const auto expect = [](DotShape got, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                         std::int64_t depth) {
    EXPECT_EQ(got.batch, batch);
    EXPECT_EQ(got.rows, rows);
    EXPECT_EQ(got.columns, columns);
    EXPECT_EQ(got.depth, depth);
  };
  expect(dot_shape(f32({4, 8}), f32({4, 16}), f32({16, 8}), 0), 1, 4, 8, 16);
  expect(dot_shape(f32({2, 4, 8}), f32({1, 2, 4, 1, 1, 16}), f32({1, 1, 16, 8}), 0), 1, 8, 8, 16);
  expect(dot_shape(f32({2, 4, 8}), f32({1, 2, 4, 1, 1, 1}), f32({1, 1, 1, 8}), 0), 1, 8, 8, 1);
  expect(dot_shape(f32({1, 8}), f32({1, 16}), f32({16, 8}), 0), 1, 1, 8, 16);
  expect(dot_shape(f32({4, 1}), f32({4, 16}), f32({16, 1}), 0), 1, 4, 1, 16);
  expect(dot_shape(f32({1}), f32({16}), f32({16}), 0), 1, 1, 1, 16);
  expect(dot_shape(f32({1, 1}), f32({1, 1}), f32({1, 1}), 0), 1, 1, 1, 1);
  expect(dot_shape(f32({3, 4, 8}), f32({3, 4, 16}), f32({3, 16, 8}), 1), 3, 4, 8, 16);
  expect(dot_shape(f32({1, 4, 8}), f32({1, 4, 16}), f32({1, 16, 8}), 1), 1, 4, 8, 16);
  expect(dot_shape(f32({3, 4, 8}), f32({3, 4, 1}), f32({3, 1, 8}), 1), 3, 4, 8, 1);
  expect(dot_shape(f32({2, 3, 4, 8}), f32({2, 3, 4, 5}), f32({2, 3, 5, 8}), 2), 6, 4, 8, 5);
}

TEST(BoxExtents, AlignFromTheRight) {
  using Extents = std::vector<std::int64_t>;
  EXPECT_EQ(box_extents(Type::tile(DType::F32, {4, 8}), 2), (Extents{4, 8}));
  EXPECT_EQ(box_extents(Type::tile(DType::F32, {4, 8}), 4), (Extents{1, 1, 4, 8}));
  EXPECT_EQ(box_extents(Type::tile(DType::F32, {1, 1, 8}), 1), (Extents{8}));
  EXPECT_EQ(box_extents(Type::tile(DType::F32, {1}), 0), Extents{});
  EXPECT_EQ(box_extents(Type::scalar(DType::F32), 2), (Extents{1, 1}));
  EXPECT_THROW(box_extents(Type::tile(DType::F32, {2, 1}), 1), Error);
}

}  // namespace
}  // namespace kiln::tile
