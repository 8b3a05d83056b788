// Meta parameters, kernel headers and types.
#include <algorithm>

#include "ir/tile/parser.h"

namespace kiln::tile {
namespace {

constexpr std::int64_t kDefaultExtent = 64;

}  // namespace

KernelParser::KernelParser(Lexer& lexer, const KernelOutline& outline, const MetaBindings& bindings)
    : lexer_(lexer), outline_(outline) {
  for (const MetaParameter& parameter : outline.meta_parameters) {
    const auto binding = bindings.find(parameter.name);
    std::int64_t bound = parameter.is_dtype ? static_cast<std::int64_t>(DType::F32) : kDefaultExtent;
    if (!parameter.choices.empty()) bound = parameter.choices.front();
    if (binding != bindings.end()) bound = binding->second;
    if (!parameter.is_dtype) {
      extents_[parameter.name] = bound;
    } else if (bound >= 0 && bound <= static_cast<std::int64_t>(DType::String)) {
      dtypes_[parameter.name] = static_cast<DType>(bound);
    } else {
      fail(outline.begin, "meta parameter {} is bound to {}, which is the number of no dtype", parameter.name,
           bound);
    }
  }
  lexer_.seek(outline.begin);
  advance();
}

void KernelParser::header() {
  expect("kernel");
  kernel_.name = current_.text;
  advance();
  if (current_.is('<')) {
    while (!accept('>')) advance();
  }
  kernel_.grid = new_block();
  kernel_.body = new_block();
  scopes_.emplace_back();
  list('(', ')', [&] { parameter(); });
  bool has_grid = false;
  while (!current_.is('{')) {
    if (accept("tune")) {
      while (!accept(']')) advance();
    } else if (accept("assume")) {
      equal_extents();
    } else if (!has_grid && accept("grid")) {
      grid();
      has_grid = true;
    } else {
      fail_expected(has_grid ? "'tune', 'assume' or '{'" : "'grid', 'tune' or 'assume'");
    }
  }
  if (!has_grid) fail_expected("'grid'");
}

void KernelParser::parameter() {
  const std::size_t offset = current_.offset;
  const std::string_view name = value_name();
  expect(':');
  Parameter parameter;
  if (accept("out")) {
    parameter.access = Access::Out;
  } else if (accept("inout")) {
    parameter.access = Access::InOut;
  } else {
    accept("in");
  }
  parameter.value = new_value(type());
  name_value(name, parameter.value);
  bind(name, parameter.value, offset);
  if (accept("alias")) {
    const std::size_t at = current_.offset;
    const std::int64_t group = static_integer();
    if (group < 1 || group > INT32_MAX) fail(at, "alias group {}, expected a positive number", group);
    parameter.alias_group = static_cast<int>(group);
  }
  kernel_.parameters.push_back(parameter);
  if (kernel_.parameters.size() > kMaxParameters) fail(offset, "more than {} parameters", kMaxParameters);
}

// `assume %x[0] = %y[0] = ...`
void KernelParser::equal_extents() {
  std::vector<ParameterExtent> group;
  do {
    const Token name = current_;
    value_name();
    const ValueId view = find(name);
    expect('[');
    const std::int64_t axis = static_integer();
    if (axis < 0 || axis >= type_of(view).rank()) fail(name.offset, "%{} has no axis {}", name.text, axis);
    expect(']');
    group.push_back({view, static_cast<int>(axis)});
  } while (accept('='));
  kernel_.equal_extents.push_back(std::move(group));
}

// `grid [extent, ...]`, or the Block itself: `grid { ... yield extent, ... }`.
void KernelParser::grid() {
  open_.push_back(kernel_.grid);
  expected_yields_.emplace_back(std::nullopt);
  scopes_.emplace_back();
  if (accept('{')) {
    statements();
    return;
  }
  const std::size_t offset = current_.offset;
  const std::vector<ValueId> extents = index_list();
  emit(Opcode::Yield, extents, {}, offset);
  open_.pop_back();
  expected_yields_.pop_back();
  scopes_.pop_back();
}

std::optional<DType> KernelParser::dtype_named(std::string_view word) const {
  const auto bound = dtypes_.find(word);
  return bound == dtypes_.end() ? dtype_from_name(word) : std::optional(bound->second);
}

Type KernelParser::type() {
  if (current_.is("tile")) return shaped_type(false);
  if (current_.is("view")) return shaped_type(true);
  const std::optional<DType> dtype =
      current_.kind == TokenKind::Word ? dtype_named(current_.text) : std::nullopt;
  if (!dtype) fail_expected("a type");
  advance();
  return Type::scalar(*dtype);
}

Type KernelParser::shaped_type(bool is_view) {
  const std::size_t offset = current_.offset;
  advance();
  if (!current_.is('<')) fail_expected("'<'");
  std::vector<std::int64_t> extents;
  DType element = DType::F32;
  shape(extents, element);
  Type result = is_view ? Type::view(element, extents) : Type::tile(element, extents);
  while (is_view && accept(',')) {
    if (accept("strides")) {
      expect('=');
      result.strides.clear();
      list('[', ']', [&] { result.strides.push_back(accept('?') ? kDynamic : static_integer()); });
      if (result.strides.size() != extents.size()) {
        fail(offset, "got {} strides, expected {}", result.strides.size(), extents.size());
      }
    } else {
      expect("align");
      expect('=');
      result.alignment = static_integer();
    }
  }
  expect('>');
  if (!is_view && std::find(extents.begin(), extents.end(), kDynamic) != extents.end()) {
    fail(offset, "a tile has static extents; '?' is for views");
  }
  return result;
}

// extent "x" extent "x" ... dtype, where an extent is digits, '?', a meta parameter or a parenthesized
// expression.
void KernelParser::shape(std::vector<std::int64_t>& extents, DType& element) {
  constexpr std::size_t kMostAxes = 64;  // the verifier has tighter limits for each kind
  const std::string_view source = lexer_.source();
  std::size_t at = lexer_.position();
  const auto peek = [&] { return at < source.size() ? source[at] : '\0'; };
  while (peek() == ' ') ++at;
  for (;; ++at) {
    const std::size_t start = at;
    const auto word_until = [&](const auto& belongs) {
      while (belongs(peek())) ++at;
      return source.substr(start, at - start);
    };
    if (peek() == '?') {
      ++at;
      extents.push_back(kDynamic);
    } else if (is_digit(peek())) {
      extents.push_back(lexer_.integer({TokenKind::Integer, word_until(is_digit), start}));
    } else if (peek() == '(') {
      lexer_.seek(at);
      advance();
      extents.push_back(static_primary());
      at = current_.offset;
    } else {
      const bool meta_name = is_meta_name(std::string_view(source).substr(at, 1));
      const std::string_view word =
          word_until([&](char c) { return is_word_character(c) && (!meta_name || !(c >= 'a' && c <= 'z')); });
      if (word.empty()) fail(start, "expected an extent or a dtype in a shape");
      if (const std::optional<std::int64_t> extent = meta(word)) {
        extents.push_back(*extent);
      } else if (const std::optional<DType> dtype = dtype_named(word)) {
        element = *dtype;
        break;
      } else {
        fail(start, "got '{}', expected an extent, a dtype or a meta parameter of the kernel",
             word.substr(0, 40));
      }
    }
    if (extents.size() > kMostAxes) fail(start, "more than {} axes", kMostAxes);
    if (peek() != 'x') fail(at, "expected 'x' and the rest of the shape, which ends in a dtype");
  }
  lexer_.seek(at);
  advance();
}

}  // namespace kiln::tile
