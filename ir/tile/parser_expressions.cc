// Expressions: operators, calls, and numbers that take their dtype from the context.
#include <charconv>
#include <cmath>

#include "ir/tile/parser.h"

namespace kiln::tile {
namespace {

constexpr int kMaxExpressionDepth = 128;
constexpr WideInteger kLeastInteger = INT64_MIN;
constexpr WideInteger kGreatestInteger = UINT64_MAX;

struct Nesting {
  int& depth;
  explicit Nesting(int& counter) : depth(counter) { ++depth; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --depth; }
};

Term integer_term(WideInteger value, std::size_t offset) {
  Term term;
  term.number.integer = value;
  term.offset = offset;
  return term;
}

Term real_term(double value, std::size_t offset) {
  Term term;
  term.number.kind = Number::Kind::Real;
  term.number.real = value;
  term.offset = offset;
  return term;
}

double as_real(const Number& number) {
  return number.kind == Number::Kind::Integer ? static_cast<double>(number.integer) : number.real;
}

bool is_integer_number(const Term& term) { return !term.value && term.number.kind == Number::Kind::Integer; }

std::optional<WideInteger> fold_integers(Function function, WideInteger a, WideInteger b) {
  const auto floor_mod = [](WideInteger x, WideInteger y) {
    const WideInteger rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
  };
  switch (function) {
    case Function::Add:
      return a + b;
    case Function::Sub:
      return a - b;
    case Function::Mul:
      return a * b;  // both within 65 bits: no overflow of 128
    case Function::Div:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case Function::Rem:
      return b == 0 ? std::nullopt : std::optional(a % b);
    case Function::FloorMod:
      return b == 0 ? std::nullopt : std::optional(floor_mod(a, b));
    case Function::Min:
      return std::min(a, b);
    case Function::Max:
      return std::max(a, b);
    default:
      return std::nullopt;
  }
}

std::optional<double> fold_reals(Function function, double a, double b) {
  switch (function) {
    case Function::Add:
      return a + b;
    case Function::Sub:
      return a - b;
    case Function::Mul:
      return a * b;
    case Function::Div:
      return a / b;
    default:
      return std::nullopt;
  }
}

}  // namespace

// --- grammar

Term KernelParser::expression() {
  Term left = product();
  while (current_.is('+') || current_.is('-')) {
    const std::size_t offset = current_.offset;
    const Function function = current_.is('+') ? Function::Add : Function::Sub;
    advance();
    left = elementwise(function, {left, product()}, offset);
  }
  return left;
}

Term KernelParser::product() {
  Term left = unary();
  while (current_.is('*') || current_.is('/')) {
    const std::size_t offset = current_.offset;
    const Function function = current_.is('*') ? Function::Mul : Function::Div;
    advance();
    left = elementwise(function, {left, unary()}, offset);
  }
  return left;
}

Term KernelParser::unary() {
  const std::size_t offset = current_.offset;
  bool negate = false;
  while (accept('-')) negate = !negate;
  Term term = primary();
  if (!negate) return term;
  if (term.value) return elementwise(Function::Neg, {term}, offset);
  term.offset = offset;
  term.number.integer = -term.number.integer;
  term.number.real = -term.number.real;
  term.number.negative = !term.number.negative;
  if (term.number.kind == Number::Kind::Bits) fail(offset, "a NaN has its sign in its bits");
  return term;
}

// Every way to nest expressions leads through here.
Term KernelParser::primary() {
  const Token token = current_;
  const Nesting nesting(depth_);
  if (depth_ > kMaxExpressionDepth)
    fail(token.offset, "expressions nest more than {} deep", kMaxExpressionDepth);
  switch (token.kind) {
    case TokenKind::Value:
      advance();
      return {find(token), {}, token.offset};
    case TokenKind::Integer: {
      std::uint64_t value = 0;
      const char* const end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
        fail(token.offset, "{} is out of range", quoted(token));
      }
      advance();
      return integer_term(value, token.offset);
    }
    case TokenKind::Real: {
      double value = 0;
      const char* const end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc()) {
        fail(token.offset, "{} is out of range", quoted(token));
      }
      advance();
      Term term = real_term(value, token.offset);
      term.number.digits = token.text;
      return term;
    }
    case TokenKind::Punctuation:
      if (token.is('(')) return parenthesized();
      break;
    case TokenKind::Word: {
      if (const std::optional<std::int64_t> bound = meta(token.text)) {
        advance();
        return integer_term(*bound, token.offset);
      }
      advance();
      if (token.text == "true" || token.text == "false")
        return integer_term(token.text == "true", token.offset);
      if (token.text == "inf") return real_term(HUGE_VAL, token.offset);
      if (token.text == "nan") return nan();
      const bool is_call = current_.is('(');
      const std::optional<Function> function = function_named(token.text);
      const bool only_call = token.text == "ceildiv" || token.text == "floordiv";
      if (is_call && (function || only_call || token.text == "dim")) return call(token.text, token.offset);
      if (function) {
        std::vector<Term> operands;
        for (int i = 0; i < arity(*function); ++i) {
          if (i) expect(',');
          operands.push_back(primary());
        }
        return elementwise(*function, operands, token.offset);
      }
      if (const std::optional<Opcode> code = opcode_named(token.text)) {
        const std::vector<ValueId> results = operation(*code, token.offset);
        if (results.size() != 1) {
          fail(token.offset, "{} gives {} results here, expected 1; name them in a statement of their own",
               token.text, results.size());
        }
        return {results[0], {}, token.offset};
      }
      fail(token.offset, "{} is no operation, function or meta parameter", quoted(token));
    }
    case TokenKind::End:
    case TokenKind::Symbol:
    case TokenKind::String:
      break;
  }
  fail_expected("an expression");
}

// ( expression ), or ( number : type ).
Term KernelParser::parenthesized() {
  const std::size_t offset = current_.offset;
  expect('(');
  Term term = expression();
  if (!term.value && accept(':')) term.value = constant(term, type());
  expect(')');
  term.offset = offset;
  return term;
}

// `nan`, or `nan(bits)` with the whole pattern as a decimal number.
Term KernelParser::nan() {
  Term term = real_term(std::nan(""), current_.offset);
  if (!accept('(')) return term;
  if (current_.kind != TokenKind::Integer) fail_expected("the bits of the NaN");
  term.number.kind = Number::Kind::Bits;
  const char* const end = current_.text.data() + current_.text.size();
  if (std::from_chars(current_.text.data(), end, term.number.bits).ec != std::errc()) {
    fail(current_.offset, "{} is out of range", quoted(current_));
  }
  advance();
  expect(')');
  return term;
}

Term KernelParser::call(std::string_view name, std::size_t offset) {
  std::vector<Term> arguments;
  list('(', ')', [&] { arguments.push_back(expression()); });
  const auto check_count = [&](std::size_t expected) {
    if (arguments.size() != expected)
      fail(offset, "{} takes {} arguments, got {}", name, expected, arguments.size());
  };
  if (const std::optional<Function> function = function_named(name)) {
    check_count(static_cast<std::size_t>(arity(*function)));
    return elementwise(*function, arguments, offset);
  }
  check_count(2);
  if (name == "dim") {
    if (!is_integer_number(arguments[1])) fail(arguments[1].offset, "the axis of dim is a number");
    Attributes attributes;
    attributes.axes = {static_cast<std::int64_t>(arguments[1].number.integer)};
    return {emit(Opcode::Dim, {value(arguments[0])}, attributes, offset)[0], {}, offset};
  }
  return divide_rounded(name == "ceildiv", arguments[0], arguments[1], offset);
}

// floordiv(a, b) = (a - floormod(a, b)) / b and ceildiv(a, b) = (a + floormod(-a, b)) / b: exact for any
// sign.
Term KernelParser::divide_rounded(bool up, const Term& a, const Term& b, std::size_t offset) {
  const Term dividend =
      up ? (a.value ? elementwise(Function::Neg, {a}, offset) : integer_term(-a.number.integer, offset)) : a;
  if (!a.value && !is_integer_number(a)) fail(a.offset, "got a number with a fraction, expected an integer");
  const Term rest = elementwise(Function::FloorMod, {dividend, b}, offset);
  const Term multiple = elementwise(up ? Function::Add : Function::Sub, {a, rest}, offset);
  return elementwise(Function::Div, {multiple, b}, offset);
}

Term KernelParser::elementwise(Function function, std::vector<Term> terms, std::size_t offset) {
  // Numbers take the dtype of the first operand that is a Value and shares its dtype with them.
  const std::size_t first_alike = function == Function::Select ? 1 : 0;
  const std::size_t last_alike = function == Function::Ldexp ? 1 : terms.size();
  std::optional<DType> dtype;
  for (std::size_t i = first_alike; i < last_alike && !dtype; ++i) {
    if (terms[i].value) dtype = type_of(*terms[i].value).element;
  }
  if (!dtype) return fold(function, terms, offset);
  std::vector<ValueId> operands;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    DType expected = *dtype;
    if (i < first_alike) expected = DType::I1;
    if (i >= last_alike) expected = *dtype == DType::F64 ? DType::I64 : DType::I32;
    operands.push_back(terms[i].value ? *terms[i].value : constant(terms[i], Type::scalar(expected)));
  }
  Attributes attributes;
  attributes.function = function;
  return {emit(Opcode::Elementwise, operands, attributes, offset)[0], {}, offset};
}

Term KernelParser::fold(Function function, const std::vector<Term>& terms, std::size_t offset) {
  bool integers = terms.size() == 2;
  bool numbers = terms.size() == 2;
  for (const Term& term : terms) {
    integers = integers && is_integer_number(term);
    numbers = numbers && !term.value && term.number.kind != Number::Kind::Bits;
  }
  if (integers) {
    const auto result = fold_integers(function, terms[0].number.integer, terms[1].number.integer);
    if (result && (*result < kLeastInteger || *result > kGreatestInteger))
      fail(offset, "this number is out of range");
    if (result) return integer_term(*result, offset);
  } else if (numbers) {
    const auto result = fold_reals(function, as_real(terms[0].number), as_real(terms[1].number));
    if (result) return real_term(*result, offset);
  }
  fail(offset, "{} of numbers without a dtype, or by zero; write a number with its type, such as (1.0 : f32)",
       name(function));
}

std::optional<std::int64_t> KernelParser::meta(std::string_view name) const {
  const auto bound = extents_.find(name);
  return bound == extents_.end() ? std::nullopt : std::optional(bound->second);
}

// --- from terms to Values

Literal KernelParser::literal(const Term& term, DType dtype) const {
  const Number& number = term.number;
  const bool floating =
      dtype == DType::F16 || dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
  if (!floating && dtype != DType::I1 && !is_integer(dtype)) {
    fail(term.offset, "no constants of {}; cast one", kiln::name(dtype));
  }
  switch (number.kind) {
    case Number::Kind::Bits:
      if (!floating || (bits(dtype) < 64 && number.bits >> bits(dtype))) {
        fail(term.offset, "these are not the bits of a {}", kiln::name(dtype));
      }
      return {dtype, number.bits};
    case Number::Kind::Real: {
      if (!floating) fail(term.offset, "got a float, expected a constant of {}", kiln::name(dtype));
      float rounded_once = 0;
      const char* const begin = number.digits.data();
      const char* const end = begin + number.digits.size();
      if (dtype == DType::F32 && begin && std::from_chars(begin, end, rounded_once).ec == std::errc()) {
        return Literal::number(dtype, static_cast<double>(number.negative ? -rounded_once : rounded_once));
      }
      return Literal::number(dtype, number.real);
    }
    case Number::Kind::Integer:
      break;
  }
  if (floating) {
    constexpr WideInteger kExact = WideInteger{1} << 53;
    if (number.integer > kExact || number.integer < -kExact) {
      fail(term.offset, "this integer is not exact as a float; write it with a fraction or an exponent");
    }
    return Literal::number(dtype, static_cast<double>(number.integer));
  }
  const int width = dtype == DType::I1 ? 1 : bits(dtype);
  const WideInteger limit = WideInteger{1} << (is_signed_integer(dtype) ? width - 1 : width);
  if (number.integer >= limit || number.integer < (is_signed_integer(dtype) ? -limit : 0)) {
    fail(term.offset, "this number is out of the range of {}", kiln::name(dtype));
  }
  return Literal::integer(dtype, static_cast<std::int64_t>(static_cast<std::uint64_t>(number.integer)));
}

ValueId KernelParser::constant(const Term& term, const Type& type) {
  if (type.is_view()) fail(term.offset, "got a number, expected {}", to_string(type));
  Attributes attributes;
  attributes.literal = literal(term, type.element);
  return emit(Opcode::Constant, {}, attributes, term.offset, {type})[0];
}

ValueId KernelParser::value(const Term& term) const {
  if (!term.value) fail(term.offset, "got a number without a type, expected a value; write (1.0 : f32)");
  return *term.value;
}

ValueId KernelParser::coerce(const Term& term, const Type& type) {
  if (!term.value) return constant(term, type);
  const Type& got = type_of(*term.value);
  if (got == type) return *term.value;
  if (got.element == type.element && !got.is_view() && !type.is_view()) {
    if (got.elements() == 1 && type.elements() == 1)
      return emit(Opcode::Reshape, {*term.value}, {}, term.offset, {type})[0];
    if (got.is_scalar()) return emit(Opcode::Broadcast, {*term.value}, {}, term.offset, {type})[0];
  }
  fail(term.offset, "got {}, expected {}", to_string(got), to_string(type));
}

ValueId KernelParser::view() {
  const Term term = primary();
  if (!term.value || !type_of(*term.value).is_view()) fail(term.offset, "expected a view");
  return *term.value;
}

ValueId KernelParser::tile_or_scalar() { return value(primary()); }

std::int64_t KernelParser::static_integer() {
  const Term term = expression();
  if (!is_integer_number(term) || term.number.integer > INT64_MAX) {
    fail(term.offset, "expected an integer made of numbers and meta parameters");
  }
  return static_cast<std::int64_t>(term.number.integer);
}

std::int64_t KernelParser::static_primary() {
  const Term term = primary();
  if (!is_integer_number(term) || term.number.integer > INT64_MAX) {
    fail(term.offset, "expected an integer, a meta parameter or an expression of those in parentheses");
  }
  return static_cast<std::int64_t>(term.number.integer);
}

std::vector<std::int64_t> KernelParser::static_list() {
  std::vector<std::int64_t> numbers;
  list('[', ']', [&] { numbers.push_back(static_integer()); });
  return numbers;
}

std::vector<ValueId> KernelParser::index_list() {
  std::vector<ValueId> indices;
  list('[', ']', [&] { indices.push_back(index()); });
  return indices;
}

}  // namespace kiln::tile
