// The text form of a Graph.
#include <cmath>

#include <fmt/format.h>
#include <xxhash.h>

#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "ir/graph/graph.h"

namespace kiln::graph {
namespace {

std::string quoted(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return "\"" + printable(result) + "\"";
}

bool is_plain(std::string_view name) {
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '/' || c == ':' || c == '-';
    if (!plain) return false;
  }
  return true;
}

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string print() {
    line("graph {}", quoted(graph_.name));
    for (const Symbol& symbol : graph_.symbols)
      line("symbol {} = {}", printable(symbol.name), source(symbol.source));
    for (const ValueId id : graph_.inputs) line("input {}: {}", value(id), type(id));
    for (std::uint32_t i = 0; i < graph_.value_count(); ++i) {
      const ValueId id{i};
      const Value& constant = graph_.value(id);
      if (constant.constant && !constant.producer) {
        line("constant {}: {} = {}", value(id), type(id, false), tensor(*constant.constant));
      }
    }
    for (const NodeId id : graph_.topological_order()) print_node(graph_.node(id));
    for (const Guard& guard : graph_.guards) {
      line("guard {} {} {} {}", dim(guard.left),
           guard.relation == Guard::Relation::Equal ? "==" : ">=", dim(guard.right), quoted(guard.reason));
    }
    for (const ValueId id : graph_.outputs) line("output {}", value(id));
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  // A Value without a name is called by its number; the others cannot be numbers alone.
  std::string value(ValueId id) const {
    if (!id) return "none";
    const std::string& name = graph_.value(id).name;
    if (name.empty()) return fmt::format("%{}", id.index);
    const bool number = name.find_first_not_of("0123456789") == std::string::npos;
    return fmt::format("%{}", is_plain(name) && !number ? name : quoted(name));
  }

  std::string dim(const Dim& dim) const {
    return dim.to_string([this](SymbolId id) { return printable(graph_.symbol_name(id)); });
  }

  std::string dims(std::span<const Dim> list) const {
    std::vector<std::string> texts;
    for (const Dim& item : list) texts.push_back(dim(item));
    return fmt::format("{}", fmt::join(texts, ", "));
  }

  std::string source(const SymbolSource& source) const {
    switch (source.kind) {
      case SymbolSource::Kind::InputDim:
        return fmt::format("dim {} {}", value(source.value), source.index);
      case SymbolSource::Kind::InputElement:
        return fmt::format("element {} {}", value(source.value), source.index);
      case SymbolSource::Kind::NodeResult:
        return fmt::format("result {} {}", value(source.value), source.index);
    }
    return "";
  }

  // "f32[batch, 4]", with what else is known of the Value.
  std::string type(ValueId id, bool with_elements = true) const {
    const Value& item = graph_.value(id);
    std::string result(kiln::name(item.dtype));
    if (item.container != Container::Tensor)
      return fmt::format("{} of {}", kiln::name(item.container), result);
    result += item.shape ? fmt::format("[{}]", dims(*item.shape)) : "[?...]";
    if (with_elements && item.elements) result += fmt::format(" {{{}}}", dims(*item.elements));
    if (item.layout) result += layout(id, item);
    return result;
  }

  std::string layout(ValueId id, const Value& item) const {
    const Layout& at = *item.layout;
    const bool dense =
        item.shape && is_dense(*item.shape, at.strides) && at.storage == id && at.offset == Dim(0);
    if (dense && at.halo.empty()) return "";
    std::string result =
        fmt::format(" in {} at {} strides [{}]", value(at.storage), dim(at.offset), dims(at.strides));
    if (!at.halo.empty()) result += fmt::format(" halo [{}]", fmt::join(at.halo, ", "));
    return result;
  }

  std::string tensor(const Tensor& constant) const {
    constexpr std::int64_t kMostElements = 8;
    if (constant.elements() <= kMostElements) {
      std::vector<std::string> values;
      for (std::int64_t i = 0; i < constant.elements(); ++i) {
        const std::optional<std::string> element = element_text(constant, static_cast<std::size_t>(i));
        if (!element) return hash(constant);
        values.push_back(*element);
      }
      return fmt::format("{{{}}}", fmt::join(values, ", "));
    }
    return hash(constant);
  }

  // Nothing for types without a plain text of their own.
  static std::optional<std::string> element_text(const Tensor& constant, std::size_t i) {
    switch (dtype_class(constant.dtype())) {
      case DTypeClass::Boolean:
      case DTypeClass::SignedInteger:
      case DTypeClass::UnsignedInteger:
        if (constant.dtype() == DType::U64) return fmt::format("{}", constant.as<std::uint64_t>()[i]);
        if (bits(constant.dtype()) < 8) return std::nullopt;
        return fmt::format("{}", constant.to_integers()[i]);
      case DTypeClass::Float:
        if (constant.dtype() == DType::F32) return fmt::format("{}", constant.as<float>()[i]);
        if (constant.dtype() == DType::F64) return fmt::format("{}", constant.as<double>()[i]);
        return std::nullopt;
      case DTypeClass::String:
        return quoted(constant.as<std::string>()[i]);
      case DTypeClass::Complex:
        break;
    }
    return std::nullopt;
  }

  static std::string hash(const Tensor& constant) {
    if (constant.dtype() == DType::String) {
      std::string all;
      for (const std::string& text : constant.as<std::string>())
        all += fmt::format("{}:{}", text.size(), text);
      return fmt::format("hash {:016x}", XXH3_64bits(all.data(), all.size()));
    }
    return fmt::format("hash {:016x}",
                       XXH3_64bits(constant.data(), static_cast<std::size_t>(constant.byte_size())));
  }

  std::string attribute(const Attribute& attribute) const {
    struct Text {
      const Printer& printer;
      std::string operator()(std::int64_t item) const { return std::to_string(item); }
      std::string operator()(double item) const {
        return fmt::format("{}", item) + (std::rint(item) == item ? "." : "");
      }
      std::string operator()(const std::string& item) const { return quoted(item); }
      std::string operator()(const std::vector<std::int64_t>& items) const {
        return fmt::format("[{}]", fmt::join(items, ", "));
      }
      std::string operator()(const std::vector<double>& items) const {
        return fmt::format("[{}]", fmt::join(items, ", "));
      }
      std::string operator()(const std::vector<std::string>& items) const {
        std::vector<std::string> texts;
        for (const std::string& item : items) texts.push_back(quoted(item));
        return fmt::format("[{}]", fmt::join(texts, ", "));
      }
      std::string operator()(const Tensor& item) const {
        return fmt::format("{}[{}] {}", kiln::name(item.dtype()), fmt::join(item.extents(), ", "),
                           printer.tensor(item));
      }
      std::string operator()(const std::shared_ptr<Graph>& item) const {
        return fmt::format("{{\n{}}}", to_text(*item));
      }
    };
    return std::visit(Text{*this}, attribute);
  }

  static bool is_default(OpKind op, std::string_view key, const Attribute& item) {
    for (const AttributeSpec& spec : contract(op).attributes) {
      if (spec.name == key) return !spec.default_text.empty() && item == default_value(spec);
    }
    return false;
  }

  void print_node(const Node& node) {
    std::vector<std::string> results, operands, attributes;
    for (const ValueId id : node.outputs) {
      results.push_back(id ? fmt::format("{}: {}", value(id), type(id)) : "none");
    }
    while (!results.empty() && results.back() == "none") results.pop_back();
    for (const ValueId id : node.inputs) operands.push_back(value(id));
    while (!operands.empty() && operands.back() == "none") operands.pop_back();
    for (const auto& [key, item] : node.attributes) {
      if (!is_default(node.op, key, item)) attributes.push_back(fmt::format("{} = {}", key, attribute(item)));
    }
    std::string text =
        fmt::format("{} = {}({})", fmt::join(results, ", "), name(node.op), fmt::join(operands, ", "));
    if (!attributes.empty()) text += fmt::format(" {{{}}}", fmt::join(attributes, ", "));
    if (!node.name.empty()) text += fmt::format(" {}", quoted(node.name));
    line("{}", text);
  }

  const Graph& graph_;
  std::string text_;
};

}  // namespace

std::string to_text(const Graph& graph) { return Printer(graph).print(); }

}  // namespace kiln::graph
