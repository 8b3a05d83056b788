#include "ir/graph/guards.h"

#include "ir/base/errors.h"

namespace kiln::graph {
namespace {

void check(const Guard& guard, std::int64_t left, std::int64_t right) {
  switch (guard.relation) {
    case Guard::Relation::Equal:
      if (left == right) return;
      throw_caller(ErrorCode::ShapeMismatch, "sizes {} and {} differ where the model needs them equal", left,
                   right);
    case Guard::Relation::AtLeast:
      if (left >= right) return;
      throw_caller(ErrorCode::ShapeMismatch, "got the size {} where the model needs at least {}", left,
                   right);
  }
}

}  // namespace

void check_guards(const Graph& graph, std::span<const std::int64_t> bindings) {
  for (const Guard& guard : graph.guards) {
    try {
      const auto left = guard.left.try_evaluate(bindings), right = guard.right.try_evaluate(bindings);
      if (left && right) check(guard, *left, *right);
    } catch (Error& error) {
      throw error.with("where", guard.reason);
    }
  }
}

}  // namespace kiln::graph
