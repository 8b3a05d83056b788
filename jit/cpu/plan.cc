#include "jit/cpu/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/errors.h"
#include "ir/tile/verifier.h"

namespace kiln::jit::cpu {

using tile::BlockId;
using tile::Function;
using tile::Kernel;
using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::Type;
using tile::ValueId;

namespace {

int work_of(const Op& op) {
  switch (op.code) {
    case Opcode::Elementwise:
      switch (op.attributes.function) {
        case Function::Div:
        case Function::Sqrt:
          return 4;
        case Function::Rem:
        case Function::FloorMod:
          return 16;
        default:
          return 1;
      }
    case Opcode::Load:
    case Opcode::Cast:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

std::vector<std::int64_t> without_unit_axes(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> kept;
  std::copy_if(extents.begin(), extents.end(), std::back_inserter(kept),
               [](std::int64_t e) { return e != 1; });
  return kept;
}

int contiguous_axis(const Kernel& kernel, const std::vector<OpId>& definer, ValueId view) {
  const OpId id = definer[view.index];
  const Type& type = kernel.type(view);
  if (type.kind == tile::TypeKind::MemoryView) {
    for (int axis = type.rank() - 1; axis >= 0; --axis) {
      if (type.strides[static_cast<std::size_t>(axis)] == 1) return axis;
    }
    return -1;
  }
  const Op& op = kernel.op(id);
  const tile::Attributes& attributes = op.attributes;
  const int source = contiguous_axis(kernel, definer, op.operands[0]);
  if (source < 0) return -1;
  const auto position = [&](const std::vector<std::int64_t>& axes) {
    const auto found = std::find(axes.begin(), axes.end(), source);
    return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
  };
  switch (op.code) {
    case Opcode::SliceView:
      return attributes.strides[static_cast<std::size_t>(source)] == 1 ? source : -1;
    case Opcode::TransposeView:
      return position(attributes.axes);
    case Opcode::BroadcastView: {
      int axis = source;
      for (const std::int64_t inserted : attributes.axes) axis += inserted <= axis ? 1 : 0;
      return axis;
    }
    case Opcode::MergeView: {
      const int first = static_cast<int>(attributes.axes.front()),
                last = static_cast<int>(attributes.axes.back());
      if (source > last) return source - (last - first);
      return source == last ? first : source < first ? source : -1;
    }
    case Opcode::SplitView: {
      const int parts = static_cast<int>(op.operands.size()) - 1;
      return source < attributes.axes[0] ? source : source + parts - 1;
    }
    case Opcode::WindowView: {
      if (const int k = position(attributes.axes); k >= 0) {
        return attributes.strides[static_cast<std::size_t>(k)] == 1 ? source : -1;
      }
      return source > attributes.axes.back() ? source + static_cast<int>(attributes.axes.size()) : source;
    }
    case Opcode::PadView:
      return attributes.pad_mode == tile::PadMode::Constant ? source : -1;
    case Opcode::GatherView: {
      if (source == attributes.axes[0]) return -1;
      return source < attributes.axes[0] ? source : source + kernel.type(op.operands[1]).rank() - 1;
    }
    case Opcode::ConcatView:
      return source;
    default:
      return -1;
  }
}

bool Plan::is_scalar(ValueId value) const {
  const Type& type = kernel_.type(value);
  return !type.is_view() && type.elements() == 1;
}

bool Plan::is_pure_tile_op(const Op& op) const {
  switch (op.code) {
    case Opcode::Constant:
    case Opcode::Iota:
    case Opcode::Reshape:
    case Opcode::Transpose:
    case Opcode::Broadcast:
    case Opcode::Slice:
    case Opcode::Cast:
    case Opcode::Bitcast:
    case Opcode::Elementwise:
    case Opcode::Mask:
    case Opcode::Load:
      return true;
    default:
      return false;
  }
}

bool Plan::is_inline(ValueId value) const {
  const OpId definer = definer_[value.index];
  if (!definer || kernel_.type(value).is_view() || is_scalar(value) || materialized_[value.index])
    return false;
  const Op& op = kernel_.op(definer);
  return is_pure_tile_op(op) || (op.code == Opcode::Reduce && inline_reduce_[definer.index]);
}

std::vector<ValueId> Plan::computed_for(ValueId value) const {
  std::vector<ValueId> values;
  walk(value, [&](ValueId id) { values.push_back(id); });
  return values;
}

bool Plan::depends_on(ValueId value, ValueId source) const {
  bool found = false;
  if (value == source) return true;
  if (!is_inline(value)) return false;
  walk(value, [&](ValueId id) { found = found || id == source; });
  return found;
}

bool Plan::is_elementwise_of(ValueId value, ValueId source) const {
  enum class Reads : std::uint8_t { Nothing, SamePosition, Elsewhere };  // of `source`
  std::map<ValueId, Reads> known;
  const auto go = [&](auto&& self, ValueId id) -> Reads {
    if (id == source) return Reads::SamePosition;
    if (!is_inline(id)) return Reads::Nothing;
    if (const auto found = known.find(id); found != known.end()) return found->second;
    const Op& op = kernel_.op(definer_[id.index]);
    const bool aligned = op.code == Opcode::Elementwise || op.code == Opcode::Cast ||
                         op.code == Opcode::Bitcast || op.code == Opcode::Mask ||
                         op.code == Opcode::Broadcast || op.code == Opcode::Reshape;
    Reads reads = Reads::Nothing;
    for (const ValueId operand : op.operands) {
      if (kernel_.type(operand).is_view()) continue;
      Reads own = self(self, operand);
      const bool same_size = kernel_.type(operand).elements() == kernel_.type(id).elements();
      if (own != Reads::Nothing && !(aligned && same_size)) own = Reads::Elsewhere;
      reads = std::max(reads, own);
    }
    return known[id] = reads;
  };
  return go(go, value) != Reads::Elsewhere;
}

int Plan::work(ValueId value) const {
  std::int64_t total = 0;
  walk(value, [&](ValueId id) {
    if ((id == value || is_inline(id)) && definer_[id.index]) {
      const Op& op = kernel_.op(definer_[id.index]);
      // An unrolled reduction repeats what it reduces; count its operand's own operation that often.
      total += op.code == Opcode::Reduce ? 2 * kernel_.type(op.operands[0]).elements() /
                                               std::max<std::int64_t>(kernel_.type(id).elements(), 1)
                                         : work_of(op);
    }
  });
  return static_cast<int>(std::min<std::int64_t>(total, 1 << 20));
}

const std::vector<std::int64_t>& Plan::space(const Root& root) const {
  return kernel_.type(root.value).extents;
}

template <typename Visit>
void Plan::walk_sources(const Root& root, const Visit& visit) const {
  std::vector<int> space_axes;
  int next = 0;
  for (const std::int64_t extent : space(root)) space_axes.push_back(extent == 1 ? -1 : next++);
  std::set<std::pair<std::uint32_t, std::vector<int>>> seen;
  const auto go = [&](auto&& self, ValueId id, const std::vector<int>& axes, bool is_root) -> void {
    if (kernel_.type(id).is_view() || is_scalar(id) || !seen.insert({id.index, axes}).second) return;
    const OpId definer = definer_[id.index];
    if ((!is_root && !is_inline(id)) || !definer || kernel_.op(definer).code == Opcode::Load)
      return visit(id, axes);
    const Op& op = kernel_.op(definer);
    if (op.code == Opcode::Reduce) {
      std::vector<int> operand = axes;
      operand.insert(operand.begin() + op.attributes.axes[0], -1);
      self(self, op.operands[0], operand, false);
    } else if (op.code == Opcode::Reshape && without_unit_axes(kernel_.type(op.operands[0]).extents) !=
                                                 without_unit_axes(kernel_.type(id).extents)) {
      return;
    } else if (is_pure_tile_op(op)) {
      for (std::size_t k = 0; k < op.operands.size(); ++k) {
        if (!kernel_.type(op.operands[k]).is_view() && !is_scalar(op.operands[k])) {
          self(self, op.operands[k], operand_axes(kernel_, op, k, axes, -1), false);
        }
      }
    }
  };
  go(go, root.value, space_axes, true);
}

// The axis along which most accesses of the roots touch adjacent elements; stores count more, since a
// scattered store costs more than a gathered load. The last axis if nothing speaks against it.
int Plan::lane_axis(const std::vector<Root>& roots) const {
  const std::vector<std::int64_t> extents = without_unit_axes(space(roots[0]));
  if (extents.empty()) return -1;
  std::vector<int> votes(extents.size(), 0);
  votes.back() = 1;
  const auto vote_for_view = [&](ValueId view, const Type& box, const std::vector<int>& axes, int weight) {
    const int contiguous = contiguous_axis(kernel_, definer_, view);
    const int axis = contiguous + box.rank() - kernel_.type(view).rank();
    if (contiguous < 0 || axis < 0) return;
    if (const int along = axes[static_cast<std::size_t>(axis)]; along >= 0) {
      votes[static_cast<std::size_t>(along)] += weight;
    }
  };
  for (const Root& root : roots) {
    std::vector<int> axes;
    int next = 0;
    for (const std::int64_t extent : space(root)) axes.push_back(extent == 1 ? -1 : next++);
    if (root.kind == Root::Kind::ReduceLanes) {
      return axes[static_cast<std::size_t>(kernel_.op(root.op).attributes.axes[0])];
    }
    if (root.kind == Root::Kind::Materialize) votes.back() += 2;
    if (root.kind == Root::Kind::Store) {
      vote_for_view(kernel_.op(root.op).operands[0], kernel_.type(root.value), axes, 3);
    }
    walk_sources(root, [&](ValueId id, const std::vector<int>& along) {
      const OpId definer = definer_[id.index];
      if (definer && kernel_.op(definer).code == Opcode::Load && (id == root.value || is_inline(id))) {
        vote_for_view(kernel_.op(definer).operands[0], kernel_.type(id), along, 1);
      } else if (const auto last =
                     std::find_if(along.rbegin(), along.rend(), [](int axis) { return axis >= 0; });
                 last != along.rend()) {
        ++votes[static_cast<std::size_t>(*last)];  // a buffer: its last axis is contiguous
      }
    });
  }
  const auto best = std::max_element(votes.rbegin(), votes.rend());  // the last of equals
  return static_cast<int>(votes.rend() - best) - 1;
}

int Plan::crossing_axis(const Group& group) const {
  std::vector<int> votes(group.extents.size(), 0);
  for (const Root& root : group.roots) {
    walk_sources(root, [&](ValueId id, const std::vector<int>& along) {
      const OpId definer = definer_[id.index];
      if (!definer || kernel_.op(definer).code != Opcode::Load || (id != root.value && !is_inline(id)))
        return;
      const ValueId view = kernel_.op(definer).operands[0];
      const int contiguous = contiguous_axis(kernel_, definer_, view);
      const int axis = contiguous + kernel_.type(id).rank() - kernel_.type(view).rank();
      if (contiguous < 0 || axis < 0) return;
      const int direction = along[static_cast<std::size_t>(axis)];
      if (direction >= 0 && direction != group.lane_axis) ++votes[static_cast<std::size_t>(direction)];
    });
  }
  const auto best = std::max_element(votes.begin(), votes.end());
  return best == votes.end() || *best == 0 ? -1 : static_cast<int>(best - votes.begin());
}

bool Plan::has_invariant_load(const Group& group, int axis) const {
  bool invariant = false, moving = false;
  for (const Root& root : group.roots) {
    walk_sources(root, [&](ValueId, const std::vector<int>& along) {
      const bool moves = std::find(along.begin(), along.end(), axis) != along.end();
      (moves ? moving : invariant) = true;
    });
  }
  return invariant && moving;
}

Group Plan::make_group(Root root) const {
  Group group;
  group.roots = {root};
  group.extents = without_unit_axes(space(root));
  group.lane_axis = lane_axis(group.roots);
  group.work = work(root.value);
  return group;
}

const Group* Plan::group_at(OpId op) const {
  const int index = group_at_[op.index];
  return index < 0 ? nullptr : &groups_[static_cast<std::size_t>(index)];
}

}  // namespace kiln::jit::cpu
