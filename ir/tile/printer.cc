// The normal form: one op a line, operands by name or number, types where operands do not determine them.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <unordered_set>

#include <fmt/format.h>

#include "ir/tile/lexer.h"
#include "ir/tile/text.h"

namespace kiln::tile {
namespace {

template <typename T>
std::string shortest(T value) {
  char buffer[64];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  std::string text(std::begin(buffer), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string to_text(const Literal& literal) {
  if (literal.dtype == DType::I1) return literal.bits ? "true" : "false";
  if (is_unsigned_integer(literal.dtype)) return std::to_string(literal.bits);
  if (is_signed_integer(literal.dtype)) return std::to_string(literal.as_integer());
  const double value = literal.as_number();
  if (std::isnan(value)) {
    const Literal quiet = Literal::number(literal.dtype, std::numeric_limits<double>::quiet_NaN());
    return literal == quiet ? "nan" : fmt::format("nan({})", literal.bits);
  }
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return literal.dtype == DType::F32 ? shortest(static_cast<float>(value)) : shortest(value);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c >= ' ' && c <= '~') {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

std::string_view mode_text(PadMode mode) {
  switch (mode) {
    case PadMode::Constant:
      return "constant";
    case PadMode::Edge:
      return "edge";
    case PadMode::Reflect:
      return "reflect";
    case PadMode::Wrap:
      return "wrap";
  }
  return "?";
}

std::string list(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel), names_(kernel.values.size()) {}
  std::string run();

 private:
  void name_value(ValueId id);
  void name_block(BlockId id);
  std::string text(ValueId id) const { return fmt::format("%{}", names_[id.index]); }
  // Operands first .. last - 1, separated by commas.
  std::string operands(const Op& op, std::size_t first, std::size_t last) const;
  std::string indices(const Op& op, std::size_t first, std::size_t count) const {
    return fmt::format("[{}]", operands(op, first, first + count));
  }
  std::string type_of_result(const Op& op) const { return to_string(kernel_.type(op.results[0])); }
  std::string parameter(const Parameter& parameter) const;
  std::string carry(const Op& op, std::size_t first_operand, std::size_t first_argument) const;
  std::string expression(const Op& op) const;
  void print_block(BlockId id, int depth);
  void print_op(const Op& op, int depth);

  const Kernel& kernel_;
  std::vector<std::string> names_;
  std::unordered_set<std::string_view> used_;
  int next_number_ = 0;
  std::string out_;
};

void Printer::name_value(ValueId id) {
  const std::string& name = kernel_.values[id.index].name;
  const bool valid =
      !name.empty() && !is_digit(name[0]) && std::all_of(name.begin(), name.end(), is_word_character);
  const bool unique = valid && used_.insert(name).second;
  names_[id.index] = unique ? name : std::to_string(next_number_++);
}

void Printer::name_block(BlockId id) {
  for (const ValueId argument : kernel_.block(id).arguments) name_value(argument);
  for (const OpId op : kernel_.block(id).ops) {
    for (const ValueId result : kernel_.op(op).results) name_value(result);
    for (const BlockId block : kernel_.op(op).blocks) name_block(block);
  }
}

std::string Printer::operands(const Op& op, std::size_t first, std::size_t last) const {
  std::string result;
  for (std::size_t i = first; i < last; ++i) {
    if (i != first) result += ", ";
    result += text(op.operands[i]);
  }
  return result;
}

std::string Printer::parameter(const Parameter& parameter) const {
  std::string_view access;
  switch (parameter.access) {
    case Access::In:
      break;
    case Access::Out:
      access = "out ";
      break;
    case Access::InOut:
      access = "inout ";
      break;
  }
  std::string result =
      fmt::format("{}: {}{}", text(parameter.value), access, to_string(kernel_.type(parameter.value)));
  if (parameter.alias_group) result += fmt::format(" alias {}", parameter.alias_group);
  return result;
}

std::string Printer::run() {
  for (const Parameter& parameter : kernel_.parameters) name_value(parameter.value);
  name_block(kernel_.grid);
  name_block(kernel_.body);
  out_ = fmt::format("kernel @{}(", kernel_.name);
  for (std::size_t i = 0; i < kernel_.parameters.size(); ++i) {
    if (i) out_ += ", ";
    out_ += parameter(kernel_.parameters[i]);
  }
  out_ += ")\n";
  for (const auto& group : kernel_.equal_extents) {
    out_ += "assume ";
    for (std::size_t i = 0; i < group.size(); ++i) {
      out_ += fmt::format("{}{}[{}]", i == 0 ? "" : " = ", text(group[i].view), group[i].axis);
    }
    out_ += "\n";
  }
  out_ += "grid {\n";
  print_block(kernel_.grid, 1);
  out_ += "}\n{\n";
  print_block(kernel_.body, 1);
  out_ += "}\n";
  return std::move(out_);
}

void Printer::print_block(BlockId id, int depth) {
  for (const OpId op : kernel_.block(id).ops) print_op(kernel_.op(op), depth);
}

void Printer::print_op(const Op& op, int depth) {
  if (op.code == Opcode::Yield && op.operands.empty()) return;
  const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
  out_ += indent;
  if (!op.results.empty() && op.code != Opcode::Local) {
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      if (i) out_ += ", ";
      out_ += text(op.results[i]);
    }
    out_ += " = ";
  }
  out_ += expression(op);
  for (std::size_t i = 0; i < op.blocks.size(); ++i) {
    const Block& block = kernel_.block(op.blocks[i]);
    if (i > 0 && op.results.empty() && block.ops.size() == 1) continue;  // an else that does nothing
    out_ += i == 0 ? " {\n" : " else {\n";
    print_block(op.blocks[i], depth + 1);
    out_ += indent + "}";
  }
  out_ += "\n";
}

std::string Printer::carry(const Op& op, std::size_t first_operand, std::size_t first_argument) const {
  const std::vector<ValueId>& arguments = kernel_.block(op.blocks[0]).arguments;
  if (first_operand == op.operands.size()) return "";
  std::string result = " carry (";
  for (std::size_t i = 0; first_operand + i < op.operands.size(); ++i) {
    if (i) result += ", ";
    result += text(arguments[first_argument + i]) + " = " + text(op.operands[first_operand + i]);
  }
  return result + ")";
}

std::string Printer::expression(const Op& op) const {
  const Attributes& a = op.attributes;
  const std::string_view opcode = name(op.code);
  const std::size_t count = op.operands.size();
  const auto all = [&] { return operands(op, 0, count); };
  const auto first = [&] { return text(op.operands[0]); };
  switch (op.code) {
    case Opcode::Constant:
      return fmt::format("const {} : {}", to_text(*a.literal), type_of_result(op));
    case Opcode::Iota:
      return fmt::format("iota axis {} : {}", a.axes[0], type_of_result(op));
    case Opcode::Reshape:
    case Opcode::Broadcast:
      return fmt::format("{} {} : {}", opcode, first(), type_of_result(op));
    case Opcode::Transpose:
    case Opcode::TransposeView:
    case Opcode::MergeView:
      return fmt::format("{} {} {}", opcode, first(), list(a.axes));
    case Opcode::Slice:
      return fmt::format("slice {}{} : {}", first(), list(a.axes), type_of_result(op));
    case Opcode::Concat:
    case Opcode::ConcatView:
      return fmt::format("{} {} axis {}", opcode, all(), a.axes[0]);
    case Opcode::Cast:
    case Opcode::Bitcast:
      return fmt::format("{} {} to {}", opcode, first(), name(kernel_.type(op.results[0]).element));
    case Opcode::Elementwise:
      return fmt::format("{} {}", name(a.function), all());
    case Opcode::Reduce:
      return fmt::format("reduce {} {} axis {}", name(a.combiner), all(), a.axes[0]);
    case Opcode::Scan:
      return fmt::format("scan {} {} axis {}{}{}", name(a.combiner), all(), a.axes[0],
                         a.exclusive ? " exclusive" : "", a.reverse ? " reverse" : "");
    case Opcode::Dot:
      return fmt::format("dot {}{}", all(), a.count ? fmt::format(" batch {}", a.count) : "");
    case Opcode::Mask:
      return fmt::format("mask {} axis {} length {} fill {}", first(), a.axes[0], text(op.operands[1]),
                         text(op.operands[2]));
    case Opcode::Dim:
      return fmt::format("dim {}, {}", first(), a.axes[0]);
    case Opcode::SliceView: {
      const std::size_t rank = (count - 1) / 2;
      std::string ranges;
      for (std::size_t axis = 0; axis < rank; ++axis) {
        ranges += fmt::format("{}{} : {} : {}", axis ? ", " : "", text(op.operands[1 + axis]),
                              text(op.operands[1 + rank + axis]), a.strides[axis]);
      }
      return fmt::format("slice_view {}[{}]", first(), ranges);
    }
    case Opcode::BroadcastView:
      return fmt::format("broadcast_view {} axes {} extents {}", first(), list(a.axes),
                         indices(op, 1, count - 1));
    case Opcode::SplitView:
      return fmt::format("split {} axis {} extents {}", first(), a.axes[0], indices(op, 1, count - 1));
    case Opcode::WindowView: {
      const std::size_t axes = a.axes.size();
      return fmt::format("window {} axes {} kernel {} stride {} dilation {} low {} high {} value {}", first(),
                         list(a.axes), list(a.sizes), list(a.strides), list(a.dilations),
                         indices(op, 1, axes), indices(op, 1 + axes, axes), to_text(*a.literal));
    }
    case Opcode::PadView: {
      const std::size_t rank = (count - 1) / 2;
      return fmt::format("pad {} low {} high {} {}{}", first(), indices(op, 1, rank),
                         indices(op, 1 + rank, rank), mode_text(a.pad_mode),
                         a.pad_mode == PadMode::Constant ? fmt::format(" {}", to_text(*a.literal)) : "");
    }
    case Opcode::GatherView:
      return fmt::format("gather {} axis {} indices {}", first(), a.axes[0], text(op.operands[1]));
    case Opcode::Load: {
      const std::size_t rank = kernel_.type(op.operands[0]).extents.size();
      const std::string fill = count > 1 + rank ? fmt::format(" fill = {}", text(op.operands[1 + rank])) : "";
      return fmt::format("load {}{}{} : {}", first(), indices(op, 1, rank), fill, type_of_result(op));
    }
    case Opcode::Store:
    case Opcode::AtomicAdd:
      return fmt::format("{} {}{}, {}", opcode, first(), indices(op, 1, count - 2), text(op.operands.back()));
    case Opcode::Local:
      return fmt::format("local {} : {} {} max {}", text(op.results[0]), type_of_result(op),
                         indices(op, 0, count), a.count);
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
      return fmt::format("{} {}", opcode, a.axes[0]);
    case Opcode::For:
      return fmt::format("for {} = {} to {} step {}{}", text(kernel_.block(op.blocks[0]).arguments[0]),
                         first(), text(op.operands[1]), text(op.operands[2]), carry(op, 3, 1));
    case Opcode::If:
      return fmt::format("if {}", first());
    case Opcode::Contract: {
      const std::size_t axes = a.sizes.size();
      std::string blocks;
      for (std::size_t axis = 0; axis < axes; ++axis) {
        const ValueId index = kernel_.block(op.blocks[0]).arguments[axis];
        blocks += fmt::format("{}{} : {}", axis ? ", " : "", text(index), a.sizes[axis]);
      }
      return fmt::format("contract ({}) in ({}){}", blocks, operands(op, 0, axes), carry(op, axes, axes));
    }
    case Opcode::Yield:
      return fmt::format("yield {}", all());
    case Opcode::Assume: {
      const bool bounded = a.sizes[1] != INT64_MIN || a.sizes[2] != INT64_MAX;
      std::string facts;
      if (a.sizes[0] != 1 || !bounded) facts += fmt::format(" multiple_of {}", a.sizes[0]);
      if (bounded) facts += fmt::format(" in [{}, {}]", a.sizes[1], a.sizes[2]);
      return fmt::format("assume {}{}", first(), facts);
    }
    case Opcode::Assert:
    case Opcode::Print:
      return fmt::format("{} {}, \"{}\"", opcode, first(), escaped(a.text));
  }
  return {};
}

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).run(); }

}  // namespace kiln::tile
