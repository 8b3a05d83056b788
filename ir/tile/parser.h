// The parser of one kernel: recursive descent that builds the Kernel as it reads. Sugar (nested expressions,
// numbers without a type, implicit reshapes) is undone here, so a Kernel has none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/tile/kernel.h"
#include "ir/tile/lexer.h"
#include "ir/tile/text.h"

namespace kiln::tile {

__extension__ using WideInteger = __int128;

// A number in the text that has no dtype yet.
struct Number {
  enum class Kind : std::uint8_t { Integer, Real, Bits } kind = Kind::Integer;
  WideInteger integer = 0;
  double real = 0;
  std::string_view digits;  // of a Real that is a plain literal, for one rounding to its dtype
  bool negative = false;    // applies to digits
  std::uint64_t bits = 0;   // of a NaN
};

// What an expression gives: a Value, or a number that takes its dtype from the context.
struct Term {
  std::optional<ValueId> value;
  Number number;
  std::size_t offset = 0;  // where it starts, for messages
};

// What is known of a kernel before its meta parameters are bound.
struct KernelOutline {
  std::string_view name;
  std::vector<MetaParameter> meta_parameters;
  std::size_t begin = 0;  // offset of `kernel`
  std::size_t end = 0;    // behind its last brace
};

std::vector<KernelOutline> read_outlines(Lexer& lexer);

class KernelParser {
 public:
  KernelParser(Lexer& lexer, const KernelOutline& outline, const MetaBindings& bindings);
  Kernel run();

 private:
  // --- tokens
  void advance() { current_ = lexer_.next(); }
  template <typename... Args>
  [[noreturn]] void fail(std::size_t offset, fmt::format_string<Args...> format, Args&&... args) const {
    lexer_.fail(offset, format, std::forward<Args>(args)...);
  }
  [[noreturn]] void fail_expected(std::string_view expected) const {
    fail(current_.offset, "got {}, expected {}", quoted(current_), expected);
  }
  void expect(char punctuation);
  void expect(std::string_view word);
  bool accept(char punctuation);
  bool accept(std::string_view word);
  std::string expect_string();
  // item { "," item } between brackets; an empty list is fine.
  template <typename Item>
  void list(char open, char close, const Item& item) {
    expect(open);
    if (accept(close)) return;
    do item();
    while (accept(','));
    expect(close);
  }

  // --- header and types (parser_header.cc)
  void header();
  void parameter();
  void equal_extents();
  void grid();
  Type type();
  Type shaped_type(bool is_view);
  // The element dtype and extents of a shape; the lexer stands behind `<`.
  void shape(std::vector<std::int64_t>& extents, DType& element);
  std::optional<DType> dtype_named(std::string_view word) const;

  // --- blocks and statements (parser.cc)
  void statements();  // until the closing brace, which is consumed
  void statement();
  void assignment();
  void store(Opcode code);
  void local();
  // `{ statements }` as a new Block. `expected` are the types of its yield, unless they are to be found out.
  BlockId block(const std::vector<ValueId>& arguments, const std::vector<std::string_view>& names,
                std::optional<std::vector<Type>> expected, std::size_t offset);
  std::vector<Type> yielded_types(BlockId id) const;

  // --- names
  void bind(std::string_view name, ValueId id, std::size_t offset);
  void name_value(std::string_view name, ValueId id);
  ValueId find(const Token& token) const;
  std::string_view value_name();

  // --- expressions (parser_expressions.cc)
  Term expression();
  Term product();
  Term unary();
  Term primary();
  Term call(std::string_view name, std::size_t offset);
  Term parenthesized();
  Term nan();
  Term elementwise(Function function, std::vector<Term> terms, std::size_t offset);
  Term fold(Function function, const std::vector<Term>& terms, std::size_t offset);
  Term divide_rounded(bool up, const Term& a, const Term& b, std::size_t offset);
  std::optional<std::int64_t> meta(std::string_view name) const;
  Literal literal(const Term& term, DType dtype) const;
  ValueId constant(const Term& term, const Type& type);
  ValueId value(const Term& term) const;  // refuses a number
  // The term as a Value of this type: numbers become constants, a scalar and a one-element tile each other, a
  // scalar is broadcast to a tile.
  ValueId coerce(const Term& term, const Type& type);
  ValueId index() { return coerce(expression(), Type::index()); }
  ValueId view();
  ValueId tile_or_scalar();
  std::int64_t static_integer();  // an expression of numbers and meta parameters
  std::int64_t static_primary();  // a number, a meta parameter or a parenthesized one
  std::vector<std::int64_t> static_list();
  std::vector<ValueId> index_list();

  // --- operations in op form (parser_ops.cc)
  std::vector<ValueId> operation(Opcode code, std::size_t offset);
  std::vector<ValueId> slice_view(std::size_t offset);
  std::vector<ValueId> window(std::size_t offset);
  std::vector<ValueId> pad(std::size_t offset);
  std::vector<ValueId> load(std::size_t offset);
  std::vector<ValueId> loop(std::size_t offset);
  std::vector<ValueId> branch(std::size_t offset);
  std::vector<ValueId> contract(std::size_t offset);
  std::vector<ValueId> assume(std::size_t offset);
  struct Carried {
    std::vector<std::string_view> names;
    std::vector<ValueId> initial;
  };
  Carried carry();
  std::vector<ValueId> loop_results(Opcode code, std::vector<ValueId> operands, Attributes attributes,
                                    std::vector<std::string_view> names, const Carried& carried,
                                    std::size_t offset);

  // --- building
  ValueId new_value(Type type);
  BlockId new_block();
  std::vector<ValueId> emit(Opcode code, std::vector<ValueId> operands, Attributes attributes,
                            std::size_t offset, std::vector<Type> wanted = {},
                            std::vector<BlockId> blocks = {});
  const Type& type_of(ValueId id) const { return kernel_.type(id); }

  Lexer& lexer_;
  const KernelOutline& outline_;
  std::map<std::string_view, std::int64_t> extents_;  // meta parameters that are bound to an extent
  std::map<std::string_view, DType> dtypes_;          // those that are bound to a dtype
  Token current_;
  Kernel kernel_;
  std::vector<BlockId> open_;
  std::vector<std::optional<std::vector<Type>>> expected_yields_;  // one per open Block
  std::unordered_map<std::string_view, ValueId> visible_;
  std::vector<std::vector<std::string_view>> scopes_;
  std::unordered_map<std::string, int> name_counts_;  // the names in use, and the last suffix tried for each
  int depth_ = 0;                                     // of nested expressions
};

// The Opcode or Function with this text name.
std::optional<Opcode> opcode_named(std::string_view name);
std::optional<Function> function_named(std::string_view name);

}  // namespace kiln::tile
