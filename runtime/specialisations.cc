#include "runtime/specialisations.h"

#include <utility>

#include <fmt/format.h>

#include "ir/graph/contract.h"
#include "ir/graph/operands.h"
#include "ir/graph/specialise.h"
#include "runtime/inputs.h"

namespace kiln::runtime {
namespace {

using graph::FusionClass;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::OpKind;
using graph::ValueId;

// True if the node's Template needs to know this operand before it can make a kernel.
bool must_be_known(const Node& node, std::size_t operand) {
  switch (contract(node.op).fusion) {
    case FusionClass::Rows:
    case FusionClass::View:
    case FusionClass::Movement:
      return graph::says_where(node, operand);
    case FusionClass::Shape:
      return node.op == OpKind::ConstantOfShape || node.op == OpKind::Range;
    case FusionClass::Elementwise:
      return node.op == OpKind::Dropout && operand > 0;
    case FusionClass::Dot:
    case FusionClass::Pool:
    case FusionClass::Control:
    case FusionClass::Opaque:
    case FusionClass::Random:
      return false;
  }
  return false;
}

// Shape arithmetic that inference follows element by element.
bool passes_elements_on(OpKind op) {
  switch (op) {
    case OpKind::Add:
    case OpKind::Sub:
    case OpKind::Mul:
    case OpKind::Div:
    case OpKind::Cast:
    case OpKind::Concat:
    case OpKind::Gather:
    case OpKind::Identity:
    case OpKind::Reshape:
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
    case OpKind::Slice:
      return true;
    default:
      return false;
  }
}

// True if what `id` holds decides where or how many somewhere.
bool tells_where(const Graph& graph, const std::vector<std::vector<NodeId>>& consumers, ValueId id,
                 int depth) {
  constexpr int kDeepest = 8;
  for (const NodeId consumer : consumers[id.index]) {
    const Node& node = graph.node(consumer);
    for (std::size_t operand = 0; operand < node.inputs.size(); ++operand) {
      if (node.inputs[operand] == id && must_be_known(node, operand)) return true;
    }
    if (depth < kDeepest && passes_elements_on(node.op) &&
        tells_where(graph, consumers, node.outputs[0], depth + 1)) {
      return true;
    }
  }
  return false;
}

// True if `value` may have few enough elements to be known.
bool may_be_small(const graph::Value& value) {
  if (!value.shape) return true;
  if (value.shape->size() > 1) return false;
  const graph::Dim elements = graph::element_count(*value.shape);
  return !elements.is_constant() ||
         elements.constant() <= static_cast<std::int64_t>(graph::kMaxKnownElements);
}

}  // namespace

Specialisations::Specialisations(Graph graph, ModelOptions options, const Parallelism& parallelism,
                                 std::int64_t memory_limit)
    : graph_(std::move(graph)),
      options_(std::move(options)),
      parallelism_(parallelism),
      memory_limit_(memory_limit) {
  const auto consumers = graph_.consumers();
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const graph::Value& value = graph_.value(graph_.inputs[i]);
    if (value.container != Container::Tensor) continue;
    if (value.dtype != DType::String && may_be_small(value) &&
        tells_where(graph_, consumers, graph_.inputs[i], 0)) {
      telling_.push_back(i);
    } else if (!value.shape) {
      open_ranks_.push_back(i);
    }
  }
  if (telling_.empty() && open_ranks_.empty()) general_ = make(graph_);
}

std::unique_ptr<SessionCore> Specialisations::make(Graph graph) const {
  return std::make_unique<SessionCore>(std::move(graph), options_, parallelism_, memory_limit_);
}

std::optional<std::string> Specialisations::key(std::span<const Datum> inputs) const {
  std::string key;
  for (const std::size_t i : open_ranks_) {
    key += fmt::format("r{};", inputs[i].tensor().rank());
  }
  for (const std::size_t i : telling_) {
    const Tensor& tensor = inputs[i].tensor();
    if (tensor.elements() > static_cast<std::int64_t>(graph::kMaxKnownElements)) return std::nullopt;
    key += to_string(tensor.extents()) + ":";
    key.append(reinterpret_cast<const char*>(tensor.data()), static_cast<std::size_t>(tensor.byte_size()));
  }
  return key;
}

Graph Specialisations::specialised(std::span<const Datum> inputs) const {
  std::map<std::size_t, graph::InputFacts> facts;
  for (const std::size_t i : open_ranks_) {
    facts[i].rank = static_cast<std::size_t>(inputs[i].tensor().rank());
  }
  for (const std::size_t i : telling_) facts[i].value = inputs[i].tensor().copy();
  return graph::specialise(graph_, facts);
}

bool Specialisations::fit(std::span<const Datum> inputs) const {
  graph::Bindings bindings(graph_.symbols.size(), graph::kUnbound);
  return bind_extents(graph_, extents_of(inputs), bindings).empty();
}

std::shared_ptr<Specialisations::Specialised> Specialisations::entry_for(const std::string& facts) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = by_facts_.find(facts); found != by_facts_.end()) return found->second;
  if (by_facts_.size() == kMost) return nullptr;
  return by_facts_[facts] = std::make_shared<Specialised>();
}

SessionCore& Specialisations::for_inputs(std::span<const Datum> inputs) {
  if (telling_.empty() && open_ranks_.empty()) return *general_;
  check_inputs(graph_, inputs);
  // Symbols that inputs bind differently are an error that only the declared Graph shows: a fact is a
  // constant in others.
  const std::optional<std::string> facts = fit(inputs) ? key(inputs) : std::nullopt;
  if (!facts) return general();
  while (const std::shared_ptr<Specialised> entry = entry_for(*facts)) {
    const std::scoped_lock making(entry->making);
    if (entry->withdrawn) continue;
    if (entry->core == nullptr) {
      try {
        entry->core = make(specialised(inputs));
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        by_facts_.erase(*facts);
        entry->withdrawn = true;
        throw;
      }
    }
    newest_ = entry->core.get();
    return *entry->core;
  }
  return general();
}

SessionCore& Specialisations::general() {
  const std::scoped_lock lock(general_mutex_);
  if (!general_) general_ = make(graph_);
  newest_ = general_.get();
  return *general_;
}

SessionCore& Specialisations::newest() {
  SessionCore* newest = newest_;
  return newest != nullptr ? *newest : general();
}

}  // namespace kiln::runtime
