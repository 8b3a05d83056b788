// What a kernel needs to have bound: its name, its meta parameters and where it ends, read by tokens alone.
// What meta parameters are used for is not looked at, so that nothing must be bound yet.
#include <set>

#include "ir/tile/parser.h"

namespace kiln::tile {
namespace {

constexpr std::size_t kMaxKernels = 1024;
constexpr std::size_t kMaxMetaParameters = 64;
constexpr std::size_t kMaxChoices = 1024;

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
        parameter->choices.push_back(lexer_.integer(token_));
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

std::vector<KernelOutline> read_outlines(Lexer& lexer) { return OutlineReader(lexer).run(); }

std::vector<KernelSignature> parse_signatures(std::string_view source, std::string_view file_name) {
  Lexer lexer(source, file_name);
  std::vector<KernelSignature> signatures;
  for (KernelOutline& outline : read_outlines(lexer)) {
    signatures.push_back({std::string(outline.name), std::move(outline.meta_parameters)});
  }
  return signatures;
}

}  // namespace kiln::tile
