// Attention in its several forms.
#include "ir/base/errors.h"
#include "ir/graph/infer.h"

namespace kiln::graph {
namespace {

std::int64_t positive(const Inference& op, const Node& node, std::string_view attribute) {
  const std::int64_t value = integer(node, attribute);
  if (value <= 0) op.fail(ErrorCode::InvalidModel, "{} is {}, expected a positive number", attribute, value);
  return value;
}

void expect_groups(const Inference& op, std::int64_t query_heads, std::int64_t key_heads) {
  if (query_heads % key_heads != 0) {
    op.fail(ErrorCode::InvalidModel,
            "{} heads of the query do not divide into groups for {} heads of the key", query_heads,
            key_heads);
  }
}

// The shape of an optional input; nothing if it is absent or its rank unknown.
std::optional<Shape> shape_if_given(const Inference& op, std::size_t operand, std::size_t rank) {
  if (!op.has_input(operand)) return std::nullopt;
  return op.shape_of_rank(operand, rank, rank);
}

// One of Q, K and V as [batch, heads, length, size], whichever form it has.
struct Heads {
  Dim batch, heads, length, size;
};

// [batch, heads, length, size], or [batch, length, heads * size] with `heads_attribute`.
std::optional<Heads> heads_of(Inference& op, std::size_t operand, std::string_view heads_attribute) {
  const std::optional<Shape>& shape = op.shape_of_rank(operand, 3, 4);
  if (!shape) return std::nullopt;
  const Shape& x = *shape;
  if (x.size() == 4) return Heads{x[0], x[1], x[2], x[3]};
  if (!has(op.node(), heads_attribute)) {
    op.fail(ErrorCode::InvalidModel, "input {} has rank 3, so that attribute \"{}\" is needed", operand,
            heads_attribute);
  }
  const std::int64_t heads = positive(op, op.node(), heads_attribute);
  if (x[2].is_constant() && x[2].constant() % heads != 0) {
    op.fail(ErrorCode::ShapeMismatch, "input {} has shape {}, expected a last extent of {} heads", operand,
            op.text(x), heads);
  }
  return Heads{x[0], heads, x[1], floordiv(x[2], heads)};
}

}  // namespace

void infer_attention(Graph& graph, Node& node) {
  Inference op(graph, node);
  for (const std::string_view attribute : {"q_num_heads", "kv_num_heads"}) {
    if (has(node, attribute)) positive(op, node, attribute);
  }
  if (has(node, "q_num_heads") && has(node, "kv_num_heads")) {
    expect_groups(op, integer(node, "q_num_heads"), integer(node, "kv_num_heads"));
  }
  const std::int64_t mode = integer(node, "qk_matmul_output_mode");
  if (mode < 0 || mode > 3) {
    op.fail(ErrorCode::InvalidModel, "qk_matmul_output_mode is {}, expected 0 to 3", mode);
  }
  shape_if_given(op, 6, 1);
  const std::optional<Heads> q = heads_of(op, 0, "q_num_heads"), k = heads_of(op, 1, "kv_num_heads"),
                             v = heads_of(op, 2, "kv_num_heads");
  if (q && k) {
    op.same(q->batch, k->batch, "batch of Q and K");
    op.same(q->size, k->size, "head sizes of Q and K");
    if (q->heads.is_constant() && k->heads.is_constant() && k->heads != Dim(0)) {
      expect_groups(op, q->heads.constant(), k->heads.constant());
    }
  }
  if (k && v) {
    op.same(k->heads, v->heads, "heads of K and V");
    op.same(k->length, v->length, "lengths of K and V");
  }
  // The keys of past and present, as axis `axis` of an output.
  const auto total = [&](std::size_t past, const Heads& now, std::size_t output, std::size_t axis) {
    if (!op.has_input(past)) return now.length;
    const std::optional<Shape>& before = op.shape_of_rank(past, 4, 4);
    return before ? (*before)[2] + now.length : op.fresh(output, axis);
  };
  const auto present = [&](std::size_t output, std::size_t past, const std::optional<Heads>& now) {
    if (!op.has_output(output)) return;
    op.set_shape(output, now ? Shape{now->batch, now->heads, total(past, *now, output, 2), now->size}
                             : op.fresh_shape(output, 4));
  };
  present(1, 4, k);
  present(2, 5, v);
  if (!q) {
    op.set_shape(3, op.fresh_shape(3, 4));
    return;
  }
  op.set_shape(3, Shape{q->batch, q->heads, q->length, k ? total(4, *k, 3, 3) : op.fresh(3, 3)});
  const bool flat = op.shape(0)->size() == 3;
  const Dim size = v ? v->size : op.fresh(0, flat ? 2 : 3);
  if (flat) {
    op.set_shape(0, Shape{q->batch, q->length, v ? q->heads * size : size});
  } else {
    op.set_shape(0, Shape{q->batch, q->heads, q->length, size});
  }
}

void infer_linear_attention(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::int64_t query_heads = positive(op, node, "q_num_heads"),
                     heads = positive(op, node, "kv_num_heads");
  expect_groups(op, query_heads, heads);
  const std::string& rule = text(node, "update_rule");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    op.fail(ErrorCode::InvalidModel,
            "update_rule is \"{}\", expected \"linear\", \"gated\", \"delta\" or \"gated_delta\"", rule);
  }
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  if (op.has_input(4) != gated) {
    op.fail(ErrorCode::InvalidModel, "update_rule \"{}\" {} input decay", rule,
            gated ? "needs" : "does not take");
  }
  if (op.has_input(5) != delta) {
    op.fail(ErrorCode::InvalidModel, "update_rule \"{}\" {} input beta", rule,
            delta ? "needs" : "does not take");
  }
  op.set_dtype(1, op.has_input(3) ? op.input(3).dtype : op.input(0).dtype);
  const std::optional<Shape>& q = op.shape_of_rank(0, 3, 3);
  const std::optional<Shape>& k = op.shape_of_rank(1, 3, 3);
  const std::optional<Shape>& v = op.shape_of_rank(2, 3, 3);
  const std::optional<Shape> past = shape_if_given(op, 3, 4);
  shape_if_given(op, 4, 3);
  shape_if_given(op, 5, 3);
  for (const std::size_t other : {1, 2, 4, 5}) {
    if (!q || !op.has_input(other) || !op.shape(other)) continue;
    op.same((*q)[0], (*op.shape(other))[0], "batch");
    op.same((*q)[1], (*op.shape(other))[1], "sequence length");
  }
  const std::optional<Shape>& first = q ? q : k ? k : v;
  const auto extent = [&](std::size_t output, std::size_t axis) {
    return first ? (*first)[output == 0 ? axis : 0] : op.fresh(output, axis);
  };
  const Dim size = v ? floordiv((*v)[2], heads) : past ? (*past)[3] : Dim(-1);
  const bool known = v || past;
  op.set_shape(0, Shape{extent(0, 0), extent(0, 1), known ? size * query_heads : op.fresh(0, 2)});
  op.set_shape(1, Shape{extent(1, 0), heads,
                        q      ? floordiv((*q)[2], query_heads)
                        : k    ? floordiv((*k)[2], heads)
                        : past ? (*past)[2]
                               : op.fresh(1, 2),
                        known ? size : op.fresh(1, 3)});
}

// Output and present state of GroupQueryAttention. Without key and value, query holds all three.
void infer_group_query_attention(Graph& graph, Node& node) {
  Inference op(graph, node);
  const std::int64_t heads = positive(op, node, "num_heads"), key_heads = positive(op, node, "kv_num_heads");
  expect_groups(op, heads, key_heads);
  if (op.has_input(1) != op.has_input(2)) {
    op.fail(ErrorCode::InvalidModel, "key and value must both be given, or neither");
  }
  if (op.has_input(3) != op.has_input(4)) {
    op.fail(ErrorCode::InvalidModel, "past_key and past_value must both be given, or neither");
  }
  if (integer(node, "do_rotary") != 0 && !(op.has_input(7) && op.has_input(8))) {
    op.fail(ErrorCode::InvalidModel, "do_rotary needs cos_cache and sin_cache");
  }
  const std::int64_t qk = integer(node, "qk_output");
  if (qk < 0 || qk > 2) op.fail(ErrorCode::InvalidModel, "qk_output is {}, expected 0 to 2", qk);
  const std::optional<Shape>& q = op.shape_of_rank(0, 3, 3);
  const bool packed = !op.has_input(1);
  std::optional<Dim> size;
  if (q) size = floordiv((*q)[2], packed ? heads + 2 * key_heads : heads);
  if (!packed) {
    for (const std::size_t operand : {1, 2}) {
      const std::optional<Shape>& x = op.shape_of_rank(operand, 3, 3);
      if (!q || !x) continue;
      op.same((*q)[0], (*x)[0], "batch");
      op.same((*q)[1], (*x)[1], "sequence length");
      op.same(*size * key_heads, (*x)[2], "head size");
    }
  }
  // The present state has room for as many keys as the past one, or as the longest sequence.
  const std::optional<std::vector<Dim>> longest = op.elements(6);
  const std::optional<Shape> past = shape_if_given(op, 3, 4);
  for (const std::size_t output : {1, 2}) {
    std::optional<Dim> room;
    if (longest && longest->size() == 1) {
      if (!op.has_input(3)) room = (*longest)[0];
      if (past) room = max((*longest)[0], (*past)[2]);
    }
    op.set_shape(output, Shape{q ? (*q)[0] : op.fresh(output, 0), key_heads,
                               room ? *room : op.fresh(output, 2), size ? *size : op.fresh(output, 3)});
  }
  op.set_shape(3, Shape{q ? (*q)[0] : op.fresh(3, 0), heads, q ? (*q)[1] : op.fresh(3, 2),
                        longest && longest->size() == 1 ? (*longest)[0] : op.fresh(3, 3)});
  op.set_shape(0, Shape{q ? (*q)[0] : op.fresh(0, 0), q ? (*q)[1] : op.fresh(0, 1),
                        size ? *size * heads : op.fresh(0, 2)});
}

}  // namespace kiln::graph
