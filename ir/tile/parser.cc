// Tokens, blocks, statements, names, and the Kernel as it grows.
#include "ir/tile/parser.h"

#include <algorithm>
#include <charconv>

#include "ir/tile/verifier.h"

namespace kiln::tile {

std::optional<Opcode> opcode_named(std::string_view name) {
  static const auto table = [] {
    std::map<std::string_view, Opcode> names;
#define KILN_TILE_OP(enumerator, text) names.emplace(text, Opcode::enumerator);
#include "ir/tile/ops.def"
#undef KILN_TILE_OP
    names.erase("elementwise");  // written as its function
    return names;
  }();
  const auto found = table.find(name);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Function> function_named(std::string_view name) {
  static const auto table = [] {
    std::map<std::string_view, Function> names;
#define KILN_PRIMITIVE(enumerator, text, arity) names.emplace(text, Function::enumerator);
#define KILN_FUNCTION(enumerator, text, arity, ulp) names.emplace(text, Function::enumerator);
#include "ir/tile/elementwise.def"
    return names;
  }();
  const auto found = table.find(name);
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

// --- tokens

void KernelParser::expect(char punctuation) {
  if (!accept(punctuation)) fail_expected(fmt::format("'{}'", punctuation));
}

void KernelParser::expect(std::string_view word) {
  if (!accept(word)) fail_expected(fmt::format("'{}'", word));
}

bool KernelParser::accept(char punctuation) {
  const bool found = current_.is(punctuation);
  if (found) advance();
  return found;
}

bool KernelParser::accept(std::string_view word) {
  const bool found = current_.is(word);
  if (found) advance();
  return found;
}

std::string KernelParser::expect_string() {
  if (current_.kind != TokenKind::String) fail_expected("a string");
  const std::string_view text = current_.text;
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const char escape = text[++i];
    unsigned byte = 0;
    if (escape == '"' || escape == '\\') {
      result += escape;
      continue;
    }
    const char* const digits = text.data() + i + 1;
    const bool enough = escape == 'x' && text.size() - i > 2;
    if (!enough || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      fail(current_.offset,
           "unknown escape in a string, expected \\\\, \\\" or \\x and two hexadecimal digits");
    }
    result += static_cast<char>(byte);
    i += 2;
  }
  advance();
  return result;
}

Kernel KernelParser::run() {
  header();
  open_.push_back(kernel_.body);
  expected_yields_.push_back(std::vector<Type>{});
  scopes_.emplace_back();
  expect('{');
  statements();
  try {
    verify(kernel_);
  } catch (Error& error) {
    throw Error(error.kind(), error.code(),
                fmt::format("{}: {}", lexer_.location(outline_.begin), error.message()), error.context());
  }
  return std::move(kernel_);
}

// --- blocks and statements

void KernelParser::statements() {
  while (!current_.is('}')) {
    if (current_.kind == TokenKind::End) fail_expected("'}'");
    const Block& block = kernel_.block(open_.back());
    if (!block.ops.empty() && kernel_.op(block.ops.back()).code == Opcode::Yield) {
      fail_expected("'}': yield ends a block");
    }
    statement();
  }
  const Block& block = kernel_.block(open_.back());
  if (block.ops.empty() || kernel_.op(block.ops.back()).code != Opcode::Yield) {
    const auto& expected = expected_yields_.back();
    if (expected && !expected->empty()) fail_expected(fmt::format("'yield' of {} values", expected->size()));
    emit(Opcode::Yield, {}, {}, current_.offset);
  }
  for (const std::string_view name : scopes_.back()) visible_.erase(name);
  scopes_.pop_back();
  expected_yields_.pop_back();
  open_.pop_back();
  expect('}');
}

void KernelParser::statement() {
  const std::size_t offset = current_.offset;
  if (current_.kind == TokenKind::Value) return assignment();
  if (accept("store")) return store(Opcode::Store);
  if (accept("atomic_add")) return store(Opcode::AtomicAdd);
  if (accept("local")) return local();
  if (accept("yield")) {
    std::vector<ValueId> operands;
    const std::optional<std::vector<Type>> expected = expected_yields_.back();
    if (!current_.is('}')) {
      do {
        const Term term = expression();
        const std::size_t i = operands.size();
        operands.push_back(expected && i < expected->size() ? coerce(term, (*expected)[i]) : value(term));
      } while (accept(','));
    }
    if (expected && operands.size() != expected->size()) {
      fail(offset, "yields {} values, expected {}", operands.size(), expected->size());
    }
    emit(Opcode::Yield, operands, {}, offset);
    return;
  }
  if (current_.is("assert") || current_.is("print")) {
    const Opcode code = current_.is("assert") ? Opcode::Assert : Opcode::Print;
    advance();
    const Term term = expression();
    const ValueId operand = code == Opcode::Assert ? coerce(term, Type::scalar(DType::I1)) : value(term);
    expect(',');
    Attributes attributes;
    attributes.text = expect_string();
    emit(code, {operand}, attributes, offset);
    return;
  }
  for (const Opcode code : {Opcode::For, Opcode::If, Opcode::Contract}) {
    if (!accept(name(code))) continue;
    const std::size_t results = operation(code, offset).size();
    if (results) fail(offset, "{} gives {} values, and they have no name", name(code), results);
    return;
  }
  fail_expected("a statement");
}

void KernelParser::assignment() {
  const std::size_t offset = current_.offset;
  std::vector<std::string_view> names;
  do names.push_back(value_name());
  while (accept(','));
  expect('=');
  const std::size_t values_before = kernel_.values.size();
  std::vector<ValueId> results;
  if (names.size() == 1) {
    Term term = expression();
    results = {term.value ? *term.value : coerce(term, Type::index())};
  } else {
    const std::optional<Opcode> code = opcode_named(current_.text);
    if (!code) fail_expected(fmt::format("an operation with {} results", names.size()));
    const std::size_t start = current_.offset;
    advance();
    results = operation(*code, start);
  }
  if (results.size() != names.size())
    fail(offset, "got {} names for {} results", names.size(), results.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (results[i].index >= values_before) name_value(names[i], results[i]);
    bind(names[i], results[i], offset);
  }
}

void KernelParser::store(Opcode code) {
  const std::size_t offset = current_.offset;
  std::vector<ValueId> operands = {view()};
  const Type view_type = type_of(operands[0]);
  const std::vector<ValueId> indices = index_list();
  operands.insert(operands.end(), indices.begin(), indices.end());
  expect(',');
  const Term term = expression();
  operands.push_back(term.value ? *term.value : constant(term, Type::scalar(view_type.element)));
  emit(code, operands, {}, offset);
}

void KernelParser::local() {
  const std::size_t offset = current_.offset;
  const std::string_view name = value_name();
  expect(':');
  const Type local_type = type();
  std::vector<ValueId> extents;
  if (current_.is('[')) extents = index_list();
  Attributes attributes;
  attributes.count = accept("max") ? static_primary() : extents.empty() ? local_type.elements() : 0;
  if (attributes.count == 0) fail_expected("'max' and the greatest number of elements");
  const ValueId result = emit(Opcode::Local, extents, attributes, offset, {local_type})[0];
  name_value(name, result);
  bind(name, result, offset);
}

BlockId KernelParser::block(const std::vector<ValueId>& arguments, const std::vector<std::string_view>& names,
                            std::optional<std::vector<Type>> expected, std::size_t offset) {
  if (open_.size() > static_cast<std::size_t>(kMaxBlockDepth)) {
    fail(offset, "blocks nest more than {} deep", kMaxBlockDepth);
  }
  const BlockId id = new_block();
  kernel_.blocks[id.index].arguments = arguments;
  scopes_.emplace_back();
  open_.push_back(id);
  expected_yields_.push_back(std::move(expected));
  for (std::size_t i = 0; i < names.size(); ++i) {
    name_value(names[i], arguments[i]);
    bind(names[i], arguments[i], offset);
  }
  expect('{');
  statements();
  return id;
}

std::vector<Type> KernelParser::yielded_types(BlockId id) const {
  std::vector<Type> types;
  for (const ValueId operand : kernel_.op(kernel_.block(id).ops.back()).operands)
    types.push_back(type_of(operand));
  return types;
}

// --- names

std::string_view KernelParser::value_name() {
  if (current_.kind != TokenKind::Value) fail_expected("the name of a value, such as '%x'");
  const std::string_view name = current_.text;
  advance();
  return name;
}

// Names are unique among all that are visible together; numbers name values that have no name of their own.
void KernelParser::bind(std::string_view name, ValueId id, std::size_t offset) {
  if (!visible_.emplace(name, id).second) fail(offset, "%{} is already defined", name);
  scopes_.back().push_back(name);
}

void KernelParser::name_value(std::string_view name, ValueId id) {
  std::string& stored = kernel_.values[id.index].name;
  if (is_digit(name[0]) || !stored.empty()) return;
  stored = name;
  while (name_counts_.contains(stored))
    stored = fmt::format("{}_{}", name, ++name_counts_[std::string(name)]);
  name_counts_.emplace(stored, 0);
}

ValueId KernelParser::find(const Token& token) const {
  const auto found = visible_.find(token.text);
  if (found == visible_.end()) fail(token.offset, "%{} is not defined here", token.text);
  return found->second;
}

// --- building

ValueId KernelParser::new_value(Type type) {
  const ValueId id{static_cast<std::uint32_t>(kernel_.values.size())};
  kernel_.values.push_back({std::move(type), {}});
  return id;
}

BlockId KernelParser::new_block() {
  const BlockId id{static_cast<std::uint32_t>(kernel_.blocks.size())};
  kernel_.blocks.emplace_back();
  return id;
}

std::vector<ValueId> KernelParser::emit(Opcode code, std::vector<ValueId> operands, Attributes attributes,
                                        std::size_t offset, std::vector<Type> wanted,
                                        std::vector<BlockId> blocks) {
  if (kernel_.ops.size() >= static_cast<std::size_t>(kMaxOps))
    fail(offset, "more than {} operations", kMaxOps);
  std::vector<Type> types;
  for (const ValueId operand : operands) types.push_back(type_of(operand));
  try {
    types = infer_types(code, types, attributes, wanted);
  } catch (const Error& error) {
    throw Error(error.kind(), error.code(), fmt::format("{}: {}", lexer_.location(offset), error.message()));
  }
  Op op{code, std::move(operands), {}, std::move(blocks), std::move(attributes)};
  for (Type& type : types) op.results.push_back(new_value(std::move(type)));
  const OpId id{static_cast<std::uint32_t>(kernel_.ops.size())};
  kernel_.ops.push_back(std::move(op));
  kernel_.blocks[open_.back().index].ops.push_back(id);
  return kernel_.ops.back().results;
}

// --- the text form's entry points

std::vector<Kernel> parse_kernels(std::string_view source, std::string_view file_name,
                                  const MetaBindings& bindings) {
  Lexer lexer(source, file_name);
  const std::vector<KernelOutline> outlines = read_outlines(lexer);
  for (const auto& [name, value] : bindings) {
    const bool known = std::any_of(outlines.begin(), outlines.end(), [&](const KernelOutline& outline) {
      return std::any_of(outline.meta_parameters.begin(), outline.meta_parameters.end(),
                         [&](const MetaParameter& parameter) { return parameter.name == name; });
    });
    if (!known) {
      throw_caller(ErrorCode::InvalidArgument, "{}: {} is bound to {}, but no kernel has that meta parameter",
                   file_name, name, value);
    }
  }
  std::vector<Kernel> kernels;
  for (const KernelOutline& outline : outlines)
    kernels.push_back(KernelParser(lexer, outline, bindings).run());
  return kernels;
}

}  // namespace kiln::tile
