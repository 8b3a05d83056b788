// Kernels, headers, types, blocks and statements.
#include "ir/tile/parser.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ir/tile/verifier.h"

namespace kiln::tile {
namespace {

constexpr std::int64_t kDefaultExtent = 64;
constexpr std::size_t kMaxKernels = 1024;
constexpr std::size_t kMaxMetaParameters = 64;
constexpr std::size_t kMaxChoices = 1024;

std::int64_t integer_of(const Lexer& lexer, const Token& token) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (error != std::errc()) lexer.fail(token.offset, "{} is out of range", quoted(token));
  return value;
}

// Reads a kernel's name and meta parameters and where it ends, by tokens alone: what they are used for is not
// looked at, so that nothing must be bound yet.
class OutlineReader {
 public:
  explicit OutlineReader(Lexer& lexer) : lexer_(lexer), token_(lexer.next()) {}

  std::vector<KernelOutline> run() {
    std::vector<KernelOutline> kernels;
    std::set<std::string_view> names;
    while (token_.kind != TokenKind::End) {
      kernels.push_back(kernel());
      if (!names.insert(kernels.back().name).second) {
        lexer_.fail(kernels.back().begin, "kernel @{} is defined twice", kernels.back().name);
      }
      if (kernels.size() > kMaxKernels)
        lexer_.fail(token_.offset, "more than {} kernels in one text", kMaxKernels);
    }
    return kernels;
  }

 private:
  Token take() { return std::exchange(token_, lexer_.next()); }
  void expect(char punctuation) {
    if (!take_if(punctuation)) expected(fmt::format("'{}'", punctuation));
  }
  bool take_if(char punctuation) {
    const bool found = token_.is(punctuation);
    if (found) take();
    return found;
  }
  [[noreturn]] void expected(std::string_view what) {
    lexer_.fail(token_.offset, "got {}, expected {}", quoted(token_), what);
  }

  KernelOutline kernel() {
    KernelOutline outline;
    outline.begin = token_.offset;
    if (!token_.is("kernel")) expected("'kernel'");
    take();
    if (token_.kind != TokenKind::Symbol) expected("a kernel name such as '@softmax'");
    outline.name = take().text;
    if (take_if('<')) declarations(outline);
    while (!token_.is('{')) {
      if (token_.kind == TokenKind::End) expected("'{'");
      const bool is_grid = token_.is("grid");
      const bool is_tune = token_.is("tune");
      take();
      if (is_grid && token_.is('{')) skip_braces(outline);
      if (is_tune) tune(outline);
    }
    outline.end = skip_braces(outline);
    return outline;
  }

  void declarations(KernelOutline& outline) {
    do {
      MetaParameter parameter;
      if (!is_meta_name(token_.text)) expected("the name of a meta parameter, in capitals");
      parameter.name = take().text;
      if (take_if(':')) {
        if (!token_.is("dtype")) expected("'dtype'");
        take();
        parameter.is_dtype = true;
      }
      if (find(outline, parameter.name)) lexer_.fail(token_.offset, "{} is declared twice", parameter.name);
      add(outline, std::move(parameter));
    } while (take_if(','));
    expect('>');
  }

  static MetaParameter* find(KernelOutline& outline, std::string_view name) {
    for (MetaParameter& parameter : outline.meta_parameters) {
      if (parameter.name == name) return &parameter;
    }
    return nullptr;
  }

  MetaParameter& add(KernelOutline& outline, MetaParameter parameter) {
    if (outline.meta_parameters.size() == kMaxMetaParameters) {
      lexer_.fail(token_.offset, "more than {} meta parameters", kMaxMetaParameters);
    }
    outline.meta_parameters.push_back(std::move(parameter));
    return outline.meta_parameters.back();
  }

  // tune NAME in [choice, ...]; a name that <...> does not declare is the block of a contract.
  void tune(KernelOutline& outline) {
    if (!is_meta_name(token_.text)) expected("the name of a meta parameter");
    const std::string name(take().text);
    MetaParameter* parameter = find(outline, name);
    if (!parameter) parameter = &add(outline, {name, false, {}});
    if (!token_.is("in")) expected("'in'");
    take();
    expect('[');
    do {
      if (parameter->is_dtype) {
        const std::optional<DType> dtype = dtype_from_name(token_.text);
        if (!dtype) expected("a dtype");
        parameter->choices.push_back(static_cast<std::int64_t>(*dtype));
      } else {
        if (token_.kind != TokenKind::Integer) expected("an integer");
        parameter->choices.push_back(integer_of(lexer_, token_));
      }
      if (parameter->choices.size() > kMaxChoices)
        lexer_.fail(token_.offset, "more than {} choices", kMaxChoices);
      take();
    } while (take_if(','));
    expect(']');
  }

  // Skips a balanced `{ ... }` and gives the offset behind it; blocks of contracts may name meta parameters.
  std::size_t skip_braces(KernelOutline& outline) {
    const std::size_t begin = token_.offset;
    int depth = 0;
    std::size_t end = begin;
    do {
      const Token token = take();
      if (token.kind == TokenKind::End) lexer_.fail(begin, "this brace is not closed");
      depth += token.is('{') ? 1 : token.is('}') ? -1 : 0;
      end = token.offset + 1;
      if (token.is("contract")) contract_blocks(outline);
    } while (depth > 0);
    return end;
  }

  void contract_blocks(KernelOutline& outline) {
    if (!token_.is('(')) return;
    int depth = 0;
    do {
      const Token token = take();
      depth += token.is('(') ? 1 : token.is(')') ? -1 : 0;
      const bool is_new =
          token.kind == TokenKind::Word && is_meta_name(token.text) && !find(outline, token.text);
      if (is_new) add(outline, {std::string(token.text), false, {}});
    } while (depth > 0 && token_.kind != TokenKind::End);
  }

  Lexer& lexer_;
  Token token_;
};

}  // namespace

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

// --- header and types

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
    } else if (!has_grid && accept("grid")) {
      grid();
      has_grid = true;
    } else {
      fail_expected(has_grid ? "'tune' or '{'" : "'grid' or 'tune'");
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
      extents.push_back(integer_of(lexer_, {TokenKind::Integer, word_until(is_digit), start}));
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

std::vector<KernelSignature> parse_signatures(std::string_view source, std::string_view file_name) {
  Lexer lexer(source, file_name);
  std::vector<KernelSignature> signatures;
  for (KernelOutline& outline : OutlineReader(lexer).run()) {
    signatures.push_back({std::string(outline.name), std::move(outline.meta_parameters)});
  }
  return signatures;
}

std::vector<Kernel> parse_kernels(std::string_view source, std::string_view file_name,
                                  const MetaBindings& bindings) {
  Lexer lexer(source, file_name);
  const std::vector<KernelOutline> outlines = OutlineReader(lexer).run();
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
