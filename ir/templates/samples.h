// The Problems that exercise each Template (Template::samples), and how they are made.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/templates/template.h"

namespace kiln::templates {

using Samples = std::vector<Template::Sample>;

Samples map_samples(const Target& target);
Samples dot_samples(const Target& target);
Samples depthwise_samples(const Target& target);
Samples convolution_samples(const Target& target);
Samples rows_samples(const Target& target);
Samples scan_samples(const Target& target);
Samples pool_samples(const Target& target);
Samples gather_samples(const Target& target);
Samples pick_samples(const Target& target);
Samples scatter_samples(const Target& target);
Samples pad_samples(const Target& target);
Samples resize_samples(const Target& target);
Samples range_samples(const Target& target);

// How an operand of a sample lies in memory.
enum class Lie : std::uint8_t {
  Dense,
  ChannelsLast,  // axis 1 innermost
  Transposed,    // the last axis outermost
  Pitched,       // a part of something larger: gaps behind every run of the innermost axis
  Reversed,      // the last axis runs backwards; for reading
  Repeated,      // one element along the first axis; for reading
};

// Collects one Problem: its operands first, then nodes through graph().
class SampleBuilder {
 public:
  explicit SampleBuilder(std::string label) : label_(std::move(label)) {}

  graph::Graph& graph() { return graph_; }
  graph::Dim symbol(std::string name);
  graph::ValueId input(DType dtype, graph::Shape shape, Lie lie = Lie::Dense);
  // A constant operand whose content is not part of the Problem; more than one element.
  graph::ValueId weights(DType dtype, Extents extents);
  // Integers that index `axis` of the operand `data`, from either end.
  graph::ValueId indices(DType dtype, graph::Shape shape, graph::ValueId data, std::size_t axis,
                         Lie lie = Lie::Dense);
  graph::ValueId add(graph::OpKind op, std::vector<graph::ValueId> inputs,
                     graph::Attributes attributes = {}) {
    return graph_.add(op, std::move(inputs), std::move(attributes));
  }
  graph::ValueId integers(std::vector<std::int64_t> values);
  // One integer, known by the symbols.
  graph::ValueId size(graph::Dim dim);
  graph::ValueId number(DType dtype, double value);
  void output(graph::ValueId id, Lie lie = Lie::Dense);

  // `root` is the result of the root. Each of `sizes` binds the symbols in the order in which they were made.
  Template::Sample finish(graph::ValueId root, const std::vector<std::vector<std::int64_t>>& sizes = {{}});

 private:
  void lay(graph::ValueId id, Lie lie);

  std::string label_;
  graph::Graph graph_;
  std::vector<graph::ValueId> inputs_;
  std::vector<Template::Sample::IndexInput> index_inputs_;
};

}  // namespace kiln::templates
