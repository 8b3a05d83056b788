#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ir/tile/passes/passes.h"
#include "tests/ir/tile/tile_text_testing.h"
#include "tests/support/golden.h"

namespace kiln::tile {
namespace {

TEST(Parser, SaysWhereAndWhatItExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"kernl @k", "test.tile:1:1: got 'kernl', expected 'kernel'"},
      {"kernel k", "test.tile:1:8: got 'k', expected a kernel name such as '@softmax'"},
      {"kernel @k() grid [1]", "test.tile:1:21: got the end of the text, expected '{'"},
      {"kernel @k() grid [1] {", "1:22: this brace is not closed"},
      {"kernel @k() { }", "1:13: got '{', expected 'grid'"},
      {"kernel @k() tune X in [1] { }", "expected 'grid'"},
      {"kernel @k<a>() grid [1] { }", "expected the name of a meta parameter, in capitals"},
      {"kernel @k<A, A>() grid [1] { }", "A is declared twice"},
      {"kernel @k() grid [1] { } kernel @k() grid [1] { }", "1:26: kernel @k is defined twice"},
      {"kernel @k() grid [1] tune X in [f32] { }", "got 'f32', expected an integer"},
      {"kernel @k<T: dtype>() grid [1] tune T in [3] { }", "got '3', expected a dtype"},
      {"kernel @k(%x: view<4yf32>) grid [1] { }", "1:21: expected 'x' and the rest of the shape"},
      {"kernel @k(%x: view<Yxf32>) grid [1] { }", "got 'Y', expected an extent, a dtype or a meta parameter"},
      {"kernel @k(%x: view<4x>) grid [1] { }", "1:22: expected an extent or a dtype"},
      {"kernel @k(%x: view<99999999999999999999xf32>) grid [1] { }", "out of range"},
      {"kernel @k(%x: view<4xf32, strides = [1, 1]>) grid [1] { }", "got 2 strides, expected 1"},
      {"kernel @k(%x: view<4xf32, %) grid [1] { }", "got '%', expected a name behind it"},
      {"kernel @k(%x: f32, %x: f32) grid [1] { }", "1:20: %x is already defined"},
      {kernel_text("%a = load %x[0, 0] : tile<?xf32>"), "2:22: a tile has static extents"},
      {kernel_text("%a = %b"), "2:6: %b is not defined here"},
      {kernel_text("%x = const 1 : i64"), "2:1: %x is already defined"},
      {kernel_text("{ }"), "2:1: got '{', expected a statement"},
      {kernel_text("neg %n"), "2:1: got 'neg', expected a statement"},
      {kernel_text("%a = foo(1)"), "2:6: 'foo' is no operation, function or meta parameter"},
      {kernel_text("%a = max(1.0)"), "2:6: max takes 2 arguments, got 1"},
      {kernel_text("%a = 1.0 + 2.0"), "got a float, expected a constant of i64"},
      {kernel_text("%a = exp(1.0)"), "write a number with its type"},
      {kernel_text("%a = 1 / 0"), "or by zero"},
      {kernel_text("%a = %n + 0.5"), "got a float, expected a constant of i64"},
      {kernel_text("%a = 18446744073709551615 * 2"), "this number is out of range"},
      {kernel_text("%a = const 18446744073709551616 : u64"), "out of range"},
      {kernel_text("%a = const 1e999 : f64"), "out of range"},
      {kernel_text("%a = const 9007199254740993 : f64"), "not exact as a float"},
      {kernel_text("%a = const -1 : u8"), "out of the range of u8"},
      {kernel_text("%a = const 1 : f8e4m3fn"), "no constants of f8e4m3fn"},
      {kernel_text("%a = const nan(1) : i32"), "not the bits of a i32"},
      {kernel_text("%a, %b = reduce sum (const 1 : tile<4xi64>) axis 0"), "got 2 names for 1 results"},
      {kernel_text("%a = reduce argmax (const 1 : tile<4xi64>) axis 0"), "gives 2 results here, expected 1"},
      {kernel_text("%a = reduce sim (const 1 : tile<4xi64>) axis 0"), "expected a combiner such as 'sum'"},
      {kernel_text("%a = store %y[0, 0], 1.0"), "store is a statement and gives no value"},
      {kernel_text("assert lt(%n, 1), \"a\\q\""), "unknown escape"},
      {kernel_text("assert lt(%n, 1), \"a"), "this string has no closing quote"},
      {kernel_text("%a = $"), "got '$', which starts nothing"},
      {kernel_text("%a = \x01"), "got a byte of value 1"},
      {kernel_text("%a = if lt(%n, 1) { yield %n\n%b = %n } else { yield %n }"),
       "expected '}': yield ends a block"},
      {kernel_text("yield %n"), "yields 1 values, expected 0"},
      {kernel_text("local %s : view<?xf32> [%n]"), "expected 'max'"},
  };
  for (const auto& [text, fragment] : cases) {
    if (text.empty()) {
      EXPECT_TRUE(parse_kernels(text, "test.tile").empty());
      continue;
    }
    const std::string message = error_of(text);
    EXPECT_NE(message.find(fragment), std::string::npos)
        << text << "\nsays: " << message << "\nexpected: " << fragment;
  }
}

TEST(Parser, RefusesHostileText) {
  std::string parentheses = kernel_text("%a = " + std::string(1000000, '('));
  EXPECT_NE(error_of(parentheses).find("expressions nest more than"), std::string::npos);
  std::string negations = "%a = ";
  for (int i = 0; i < 100000; ++i) negations += "neg ";
  EXPECT_NE(error_of(kernel_text(negations + "%n")).find("expressions nest more than"), std::string::npos);
  std::string loops;
  for (int i = 0; i < 10000; ++i) loops += "if lt(%n, 1) { ";
  EXPECT_NE(error_of(kernel_text(loops + std::string(10000, '}'))).find("blocks nest more than"),
            std::string::npos);
  std::string ops;
  for (int i = 0; i < 40000; ++i) ops += "%c" + std::to_string(i) + " = 1\n";
  EXPECT_NE(error_of(kernel_text(ops)).find("more than 32768 operations"), std::string::npos);
  EXPECT_NE(error_of(std::string(5 << 20, ' ')).find("bytes of text, expected at most"), std::string::npos);
  EXPECT_NE(
      error_of(kernel_text("%a = const 1.0 : tile<4294967296x4294967296x4294967296xf32>")).find("elements"),
      std::string::npos);
  std::string axes;
  for (int i = 0; i < 1000; ++i) axes += "1x";
  EXPECT_NE(error_of(kernel_text("%a = const 1.0 : tile<" + axes + "f32>")).find("more than 64 axes"),
            std::string::npos);
}

// Every prefix of a program is an error with a place, never a crash.
TEST(Parser, RefusesEveryPrefix) {
  const std::string text = kernel_text(
      "%w = window %x axes [0] kernel [3] pad [1] value -1.5\n%t = load %w[0, 0, %n] fill = nan : "
      "tile<1x3x(2*4)xf32>\n"
      "%v, %j = reduce argmax %t axis 2\n%s = contract (%k : BK) in (%n) carry (%a = 0.0 : f32) { yield %a + "
      "1.0 }\n"
      "store %y[0, 0], %t * -%s");
  EXPECT_EQ(parse_one(text).grid_rank(), 1);
  for (std::size_t length = 1; length + 2 < text.size(); ++length) {
    EXPECT_NE(error_of(text.substr(0, length)).find("test.tile:"), std::string::npos)
        << text.substr(0, length);
  }
}

// Random edits of good programs: refused with an Error, or read, verified and printed without loss.
TEST(Parser, SurvivesRandomEdits) {
  const std::vector<std::string> pieces = {"%n",          "0",      "-1",       "9223372036854775808",
                                           "1e300",       "nan(7)", "inf",      "(",
                                           ")",           "[",      "]",        "{",
                                           "}",           ",",      ":",        "=",
                                           "-",           "*",      "/",        "?",
                                           "x",           "f32",    "i1",       "tile<4xf32>",
                                           "view<?xf32>", "BM",     "load",     "store",
                                           "for",         "if",     "contract", "yield",
                                           "reduce sum",  "dot",    "carry",    "axis",
                                           "max",         "exp",    "\"",       "//",
                                           "@",           "%",      "<",        ">",
                                           "\n",          " ",      "const",    "batch",
                                           "fill"};
  std::mt19937 generator(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(generator() % n); };
  int accepted = 0;
  for (const std::string name :
       {"softmax", "lstm", "winograd", "max_pool", "attention_online", "quantized_matmul"}) {
    const std::string source = testing::read_file(testing::golden_path("tile/" + name + ".tile"));
    for (int round = 0; round < 300; ++round) {
      std::string text = source;
      for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
        const std::size_t at = below(text.size());
        const std::size_t length = below(4) == 0 ? below(30) : below(2);
        text.replace(at, std::min(length, text.size() - at),
                     below(3) == 0 ? "" : pieces[below(pieces.size())]);
      }
      try {
        for (const Kernel& kernel : parse_kernels(text, "edited.tile")) {
          const std::string printed = print(kernel);
          EXPECT_EQ(canonical_bytes(parse_one(printed)), canonical_bytes(kernel)) << text;
          EXPECT_EQ(print(parse_one(printed)), printed);
          ++accepted;
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Caller) << error.what() << "\n" << text;
      }
    }
  }
  EXPECT_GT(accepted, 50);  // or the edits are too wild to test anything but the first error
}

TEST(Parser, BindsMetaParameters) {
  const std::string text =
      "kernel @k<BM, T: dtype>(%x: view<?xT>, %y: out view<?xT>) grid [ceildiv(dim(%x, 0), BM)]\n"
      "  tune BM in [8, 16] tune T in [f16, f32]\n"
      "{ %s = contract (%k : BK) in (16) carry (%a = 0.0 : tile<(BM*2)xT>) {"
      "    yield %a + (load %x[%k] : tile<(BM * 2)xT>) } store %y[0], %s }";
  const std::vector<KernelSignature> signatures = parse_signatures(text, "test.tile");
  ASSERT_EQ(signatures.size(), 1u);
  ASSERT_EQ(signatures[0].meta_parameters.size(), 3u);
  EXPECT_EQ(signatures[0].meta_parameters[0].name, "BM");
  EXPECT_EQ(signatures[0].meta_parameters[0].choices, (std::vector<std::int64_t>{8, 16}));
  EXPECT_TRUE(signatures[0].meta_parameters[1].is_dtype);
  EXPECT_EQ(signatures[0].meta_parameters[2].name, "BK");

  const std::string first = print(parse_one(text));
  EXPECT_NE(first.find("tile<16xf16>"), std::string::npos) << first;
  EXPECT_NE(first.find("contract (%k : 64)"), std::string::npos) << first;
  const std::string bound =
      print(parse_one(text, {{"BM", 5}, {"BK", 3}, {"T", static_cast<std::int64_t>(DType::F64)}}));
  EXPECT_NE(bound.find("tile<10xf64>"), std::string::npos) << bound;
  EXPECT_NE(bound.find("contract (%k : 3)"), std::string::npos) << bound;
  EXPECT_NE(error_of(text, {{"BX", 1}}).find("no kernel has that meta parameter"), std::string::npos);
  EXPECT_NE(error_of(text, {{"T", 999}}).find("the number of no dtype"), std::string::npos);
}

TEST(Parser, NamesAreUniqueInTheKernelAndScopedInTheText) {
  const Kernel kernel =
      parse_one(kernel_text("for %j = 0 to 2 { %t = %j }\nfor %j = 0 to 2 { %t = %j * 2 }\n%j_1 = %n"));
  const std::string printed = print(kernel);
  EXPECT_NE(printed.find("for %j = "), std::string::npos) << printed;
  EXPECT_NE(printed.find("for %j_1 = "), std::string::npos) << printed;
  EXPECT_NE(error_of(kernel_text("for %j = 0 to 2 { %n = %j }")).find("%n is already defined"),
            std::string::npos);
  EXPECT_NE(error_of(kernel_text("for %j = 0 to 2 { }\n%k = %j")).find("%j is not defined here"),
            std::string::npos);
}

struct LiteralCase {
  DType dtype;
  std::uint64_t bits;
};

TEST(Printer, KeepsEveryBitOfConstants) {
  std::vector<LiteralCase> cases;
  for (const std::uint64_t bits :
       {0x00000000ull, 0x80000000ull, 0x00000001ull, 0x007fffffull, 0x7f7fffffull, 0x7f800000ull,
        0xff800000ull, 0x7fc00000ull, 0xffc00000ull, 0x7f800001ull, 0x3dcccccdull}) {
    cases.push_back({DType::F32, bits});
  }
  std::uint64_t state = 42;
  for (int i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    cases.push_back({DType::F32, state >> 32});
    cases.push_back({DType::F64, state});
    cases.push_back({DType::F16, state >> 48});
    cases.push_back({DType::BF16, state >> 48});
    cases.push_back({DType::I8, state >> 56});
    cases.push_back({DType::I64, state});
    cases.push_back({DType::U64, state});
    cases.push_back({DType::I4, state >> 60});
  }
  cases.push_back({DType::I64, 1ull << 63});
  cases.push_back({DType::U64, UINT64_MAX});
  cases.push_back({DType::I1, 1});
  cases.push_back({DType::I1, 0});
  Kernel kernel = parse_one(kernel_text("%a = const 1.0 : f32"));
  const OpId op = kernel.block(kernel.body).ops[0];
  for (const LiteralCase& c : cases) {
    kernel.ops[op.index].attributes.literal = Literal{c.dtype, c.bits};
    kernel.values[kernel.op(op).results[0].index].type = Type::scalar(c.dtype);
    const std::string printed = print(kernel);
    EXPECT_EQ(canonical_bytes(parse_one(printed)), canonical_bytes(kernel)) << printed;
  }
}

TEST(Printer, FallsBackToNumbersForNamesThatCannotBeWritten) {
  Kernel kernel = parse_one(kernel_text("%a = neg %n\n%b = neg %a\n%c = neg %b"));
  for (Value& value : kernel.values) {
    if (value.name == "a") value.name = "not a name";
    if (value.name == "c") value.name = "b";
  }
  const std::string printed = print(kernel);
  EXPECT_EQ(canonical_bytes(parse_one(printed)), canonical_bytes(kernel)) << printed;
  EXPECT_EQ(print(parse_one(printed)), printed);
}

TEST(Literal, RoundsSaturatesAndWraps) {
  EXPECT_EQ(Literal::number(DType::F32, 0.1).bits, 0x3dcccccdu);
  EXPECT_EQ(Literal::number(DType::F16, 1e6).bits, 0x7c00u);
  EXPECT_EQ(Literal::number(DType::BF16, 1.0).bits, 0x3f80u);
  EXPECT_EQ(Literal::number(DType::I8, 1000.0).as_integer(), 127);
  EXPECT_EQ(Literal::number(DType::I8, -1000.0).as_integer(), -128);
  EXPECT_EQ(Literal::number(DType::I8, -1.9).as_integer(), -1);
  EXPECT_EQ(Literal::number(DType::U8, -1.0).as_integer(), 0);
  EXPECT_EQ(Literal::number(DType::I64, -HUGE_VAL).as_integer(), INT64_MIN);
  EXPECT_EQ(Literal::number(DType::I64, HUGE_VAL).as_integer(), INT64_MAX);
  EXPECT_EQ(Literal::number(DType::U64, 1e30).bits, UINT64_MAX);
  EXPECT_EQ(Literal::number(DType::I32, std::nan("")).as_integer(), 0);
  EXPECT_EQ(Literal::integer(DType::I8, 255).as_integer(), -1);
  EXPECT_EQ(Literal::integer(DType::U8, -1).as_integer(), 255);
  EXPECT_EQ(Literal::integer(DType::I4, 8).as_integer(), -8);
  EXPECT_EQ(Literal::integer(DType::I1, 2).bits, 1u);
  EXPECT_EQ(Literal::integer(DType::F64, -3).as_number(), -3.0);
  EXPECT_EQ(Literal::number(DType::F64, 1e300).as_integer(), INT64_MAX);
  EXPECT_THROW(Literal::number(DType::F8E4M3FN, 1.0), Error);
}

TEST(Printer, WritesWhatIsAssumedOfExtents) {
  const std::string parameters = "kernel @k(%x: view<?x?xf32>, %y: out view<?x?xf32>) ";
  const std::string rest = "grid [1] { }";
  const std::vector<std::string> clauses = {"", "assume %x[0] = %y[0] ", "assume %x[0] = %y[1] ",
                                            "assume %x[0] = %y[0] = %x[1] ",
                                            "assume %x[0] = %y[0] assume %x[1] = %y[1] "};
  for (const std::string& clause : clauses) {
    const Kernel kernel = parse_one(parameters + clause + rest);
    const std::string text = print(kernel);
    EXPECT_EQ(canonical_bytes(parse_one(text)), canonical_bytes(kernel)) << text;
    for (const std::string& other : clauses) {
      if (other == clause) break;
      EXPECT_NE(canonical_bytes(parse_one(parameters + other + rest)), canonical_bytes(kernel)) << text;
    }
  }
}

TEST(CanonicalBytes, IgnoreNamesAndTellEverythingElseApart) {
  const auto bytes = [](std::string_view body) { return canonical_bytes(parse_one(kernel_text(body))); };
  EXPECT_EQ(bytes("%a = neg %n\n%b = neg %a"), bytes("%b = neg %n\n%a = neg %b"));
  const std::vector<std::string> different = {
      "%a = neg %n",
      "%a = abs %n",
      "%a = neg %n\n%b = neg %n",
      "%a = neg %n\n%b = neg %a",
      "%a = const 1 : i64",
      "%a = const 1 : i32",
      "%a = const 2 : i64",
      "%a = const 1 : tile<1xi64>",
      "%a = const 1 : tile<1x1xi64>",
      "%t = const 1 : tile<2x2xi64>\n%a = reduce sum %t axis 0",
      "%t = const 1 : tile<2x2xi64>\n%a = reduce sum %t axis 1",
      "%t = const 1 : tile<2x2xi64>\n%a = reduce max %t axis 1",
      "%t = const 1 : tile<2x2xi64>\n%a = scan sum %t axis 1",
      "%t = const 1 : tile<2x2xi64>\n%a = scan sum %t axis 1 reverse",
      "%t = const 1 : tile<2x2xi64>\n%a = scan sum %t axis 1 exclusive",
      "%a = window %x axes [0] kernel [3]",
      "%a = window %x axes [0] kernel [3] stride [2]",
      "%a = window %x axes [0] kernel [3] dilation [2]",
      "%a = window %x axes [0] kernel [3] value 1.0",
      "%a = pad %x low [0, 0] high [0, 0] edge",
      "%a = pad %x low [0, 0] high [0, 0] wrap",
      "assert lt(%n, 1), \"a\"",
      "assert lt(%n, 1), \"b\"",
      "if lt(%n, 1) { } else { store %y[0, 0], 1.0 }",
      "if lt(%n, 1) { store %y[0, 0], 1.0 }",
  };
  for (std::size_t i = 0; i < different.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(bytes(different[i]), bytes(different[j])) << different[i] << different[j];
  }
}

}  // namespace
}  // namespace kiln::tile
