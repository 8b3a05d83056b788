// Parses the rows of ops.def into OpContracts, once.
#include "ir/graph/contract.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <string>
#include <vector>

#include "ir/base/errors.h"
#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

constexpr std::string_view Onnx = "ai.onnx";
constexpr std::string_view MachineLearning = "ai.onnx.ml";
constexpr std::string_view Microsoft = "com.microsoft";

// What the class column says.
struct OperatorClass {
  FusionClass fusion;
  std::string_view name;
};

namespace operator_classes {
constexpr OperatorClass Elementwise{FusionClass::Elementwise, "elementwise"};
constexpr OperatorClass Reduction{FusionClass::Rows, "reduction"};
constexpr OperatorClass Softmax{FusionClass::Rows, "softmax"};
constexpr OperatorClass Normalisation{FusionClass::Rows, "normalisation"};
constexpr OperatorClass AffineNormalisation{FusionClass::Elementwise, "normalisation"};
constexpr OperatorClass Pooling{FusionClass::Pool, "pooling"};
constexpr OperatorClass GlobalPooling{FusionClass::Rows, "pooling"};
constexpr OperatorClass View{FusionClass::View, "data movement"};
constexpr OperatorClass Movement{FusionClass::Movement, "data movement"};
constexpr OperatorClass Product{FusionClass::Dot, "matmul"};
constexpr OperatorClass Convolution{FusionClass::Dot, "convolution"};
constexpr OperatorClass Shape{FusionClass::Shape, "shape"};
constexpr OperatorClass Control{FusionClass::Control, "other"};
constexpr OperatorClass Opaque{FusionClass::Opaque, "other"};
constexpr OperatorClass Random{FusionClass::Random, "other"};
}  // namespace operator_classes

struct Row {
  OpKind kind;
  std::string_view name, domain;
  OperatorClass operator_class;
  InferFunction infer;
  std::string_view signature, attributes;
};

constexpr Row kRows[] = {
#define KILN_OP(kind, domain, operator_class, infer, signature, attributes) \
  {OpKind::kind, #kind, domain, operator_classes::operator_class, infer, signature, attributes},
#include "ir/graph/ops.def"
#undef KILN_OP
};

struct TypeSet {
  std::string_view name, members;
};

constexpr TypeSet kTypeSets[] = {
    {"float", "f16 bf16 f32 f64"},
    {"signed", "i8 i16 i32 i64"},
    {"unsigned", "u8 u16 u32 u64"},
    {"integer", "signed unsigned"},
    {"index", "i32 i64"},
    {"number", "integer float"},
    {"wide", "i32 i64 u32 u64 float"},
    {"f8", "f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz"},
    {"data", "i1 number c64 c128 string"},
    {"any", "data f8 f8e8m0 f4e2m1 i2 u2 i4 u4"},
};

constexpr std::pair<std::string_view, AttributeType> kAttributeTypes[] = {
    {"int", AttributeType::Integer},   {"float", AttributeType::Number},   {"text", AttributeType::Text},
    {"ints", AttributeType::Integers}, {"floats", AttributeType::Numbers}, {"texts", AttributeType::Texts},
    {"tensor", AttributeType::Tensor}, {"graph", AttributeType::Graph},
};

// "seq(T)": a sequence of tensors of T.
constexpr std::pair<std::string_view, Container> kContainers[] = {
    {"seq(", Container::Sequence},
    {"map(", Container::Map},
    {"maps(", Container::MapSequence},
};

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// Pieces between separators, trimmed; none for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  text = trim(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    pieces.push_back(trim(text.substr(0, end)));
    text = trim(text.substr(std::min(end + 1, text.size())));
  }
  return pieces;
}

// The two sides of the first `separator`; the second is empty if there is none.
std::pair<std::string_view, std::string_view> cut(std::string_view text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return {trim(text), {}};
  return {trim(text.substr(0, at)), trim(text.substr(at + separator.size()))};
}

bool drop_suffix(std::string_view& text, char suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(1);
  return true;
}

void expand_types(std::string_view list, std::vector<DType>& types) {
  for (const std::string_view item : split(list, ' ')) {
    if (const std::optional<DType> dtype = dtype_from_name(item)) {
      types.push_back(*dtype);
      continue;
    }
    bool found = false;
    for (const TypeSet& set : kTypeSets) {
      if (set.name != item) continue;
      expand_types(set.members, types);
      found = true;
    }
    require(found, "ops.def names the unknown type \"{}\"", item);
  }
}

// What the spans of the contracts point to; a deque, so that nothing moves.
struct Storage {
  std::vector<OperandSpec> inputs, outputs;
  std::deque<std::vector<DType>> type_lists;
  std::vector<TypeConstraint> types;
  std::vector<AttributeSpec> attributes;
  std::vector<std::pair<int, int>> in_place;

  void add_type(std::string_view letter, std::string_view list) {
    for (const TypeConstraint& constraint : types) {
      if (constraint.letter == letter) return;
    }
    expand_types(list, type_lists.emplace_back());
    types.push_back({letter, type_lists.back()});
  }

  std::vector<OperandSpec> parse_operands(std::string_view list, bool outputs_list) {
    std::vector<OperandSpec> operands;
    for (const std::string_view item : split(list, ',')) {
      const auto [operand, source] = cut(item, "@");
      if (outputs_list && !source.empty()) {
        in_place.emplace_back(source[0] - '0', static_cast<int>(operands.size()));
      }
      OperandSpec spec;
      std::tie(spec.name, spec.types) = cut(operand, ":");
      spec.variadic = drop_suffix(spec.types, '*');
      spec.optional = drop_suffix(spec.types, '?');
      for (const auto& [prefix, container] : kContainers) {
        if (!spec.types.starts_with(prefix)) continue;
        spec.container = container;
        spec.types = spec.types.substr(prefix.size(), spec.types.size() - prefix.size() - 1);
      }
      spec.mixed = spec.types == "mixed";
      if (dtype_from_name(spec.types)) add_type(spec.types, spec.types);
      operands.push_back(spec);
    }
    return operands;
  }

  void parse_attributes(std::string_view list) {
    for (const std::string_view item : split(list, ',')) {
      AttributeSpec spec;
      auto [declaration, default_text] = cut(item, "=");
      const bool optional = drop_suffix(declaration, '?');
      const auto [attribute, type] = cut(declaration, ":");
      spec.name = attribute;
      spec.default_text = default_text;
      spec.required = default_text.empty() && !optional;
      bool found = false;
      for (const auto& [type_name, attribute_type] : kAttributeTypes) {
        if (type_name != type) continue;
        spec.type = attribute_type;
        found = true;
      }
      require(found, "ops.def names the unknown attribute type \"{}\"", type);
      attributes.push_back(spec);
    }
  }

  void derive_in_place(FusionClass fusion) {
    if (fusion != FusionClass::Elementwise) return;
    in_place.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) in_place.emplace_back(static_cast<int>(i), 0);
  }
};

// Whatever the locale of the process is.
template <typename T>
T parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "ops.def has the default \"{}\"", text);
  return value;
}

std::int64_t parse_integer(std::string_view text) { return parse<std::int64_t>(text); }

// Defaults of floats are f32 in the standard, so 0.01 means the f32 nearest to it.
double parse_number(std::string_view text) { return parse<float>(text); }

template <typename Parse>
auto parse_list(std::string_view text, Parse parse) {
  std::vector<decltype(parse(text))> values;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) values.push_back(parse(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return values;
}

struct Table {
  std::deque<Storage> storages;
  std::vector<OpContract> contracts;

  Table() {
    for (const Row& row : kRows) {
      Storage& storage = storages.emplace_back();
      const auto [operands, types] = cut(row.signature, "|");
      for (const std::string_view constraint : split(types, ';')) {
        const auto [letter, list] = cut(constraint, "=");
        storage.add_type(letter, list);
      }
      const auto [inputs, outputs] = cut(operands, "->");
      storage.inputs = storage.parse_operands(inputs, false);
      storage.outputs = storage.parse_operands(outputs, true);
      storage.parse_attributes(row.attributes);
      storage.derive_in_place(row.operator_class.fusion);
      contracts.push_back({row.kind, row.name, row.domain, row.operator_class.name, storage.inputs,
                           storage.outputs, storage.types, storage.attributes, row.infer,
                           row.operator_class.fusion, storage.in_place});
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

const OpContract& contract(OpKind kind) {
  const Table& rows = table();
  require(static_cast<std::size_t>(kind) < rows.contracts.size(), "operator number {} is not in ops.def",
          static_cast<int>(kind));
  return rows.contracts[static_cast<std::size_t>(kind)];
}

std::span<const OpContract> contracts() { return table().contracts; }

Attribute default_value(const AttributeSpec& spec) {
  switch (spec.type) {
    case AttributeType::Integer:
      return parse_integer(spec.default_text);
    case AttributeType::Number:
      return parse_number(spec.default_text);
    case AttributeType::Text:
      return std::string(spec.default_text);
    case AttributeType::Integers:
      return parse_list(spec.default_text, parse_integer);
    case AttributeType::Numbers:
      return parse_list(spec.default_text, parse_number);
    case AttributeType::Texts:
      return parse_list(spec.default_text, [](std::string_view item) { return std::string(item); });
    case AttributeType::Tensor:
    case AttributeType::Graph:
      break;
  }
  throw_bug("attribute \"{}\" of ops.def cannot have a default", spec.name);
}

}  // namespace kiln::graph
