// Makes a Plan: the form of every tile, then the Groups of roots.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/base/errors.h"
#include "jit/cpu/plan.h"

namespace kiln::jit::cpu {

using tile::BlockId;
using tile::Kernel;
using tile::Op;
using tile::Opcode;
using tile::OpId;
using tile::ValueId;

namespace {

// Recomputing a tile costs less than storing and reading it back while it takes fewer operations than this.
constexpr int kCheapWork = 8;
// Copies that nested unrolled reductions make of an expression, and Ops in place of each other, at most.
constexpr std::int64_t kMostCopies = 64;
constexpr int kDeepest = 256;

}  // namespace

// Fills a Plan.
class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), kernel_(plan.kernel_) {}

  void run() {
    index_ops();
    if (kernel_.body) {
      choose_forms();
      group_block(kernel_.body);
      choose_buffers(kernel_.body);
      plan_.groups_.clear();
      std::fill(plan_.group_at_.begin(), plan_.group_at_.end(), -1);
      group_block(kernel_.body);
    }
  }

 private:
  // Where code for an Op is emitted: the block and the position of its Op, or of its Group's last Root.
  struct Site {
    BlockId block;
    int position = 0;
    auto operator<=>(const Site&) const = default;
  };
  using MemorySet = std::set<std::int64_t>;  // parameters by number, locals by -1 - value

  void index_ops() {
    plan_.definer_.assign(kernel_.values.size(), OpId::none());
    plan_.users_.resize(kernel_.values.size());
    plan_.materialized_.assign(kernel_.values.size(), 0);
    plan_.dense_.assign(kernel_.values.size(), 0);
    plan_.inline_reduce_.assign(kernel_.ops.size(), 0);
    plan_.group_at_.assign(kernel_.ops.size(), -1);
    site_.resize(kernel_.ops.size());
    parent_.assign(kernel_.blocks.size(), OpId::none());
    if (kernel_.grid) index_block(kernel_.grid);
    if (kernel_.body) index_block(kernel_.body);
  }
  void index_block(BlockId block) {
    int position = 0;
    for (const OpId id : kernel_.block(block).ops) {
      const Op& op = kernel_.op(id);
      site_[id.index] = {block, position++};
      for (const ValueId result : op.results) plan_.definer_[result.index] = id;
      for (const ValueId operand : op.operands) plan_.users_[operand.index].push_back(id);
      for (const BlockId inner : op.blocks) {
        parent_[inner.index] = id;
        index_block(inner);
      }
    }
  }

  template <typename Visit>
  void for_each_op(BlockId block, const Visit& visit) const {
    for (const OpId id : kernel_.block(block).ops) {
      visit(id, kernel_.op(id));
      for (const BlockId inner : kernel_.op(id).blocks) for_each_op(inner, visit);
    }
  }

  // A reduction runs along vectors if its operand is contiguous there, else across them; then a short one is
  // unrolled in place. A reshape that is more than unit axes reads its operand from a dense buffer. Buffers
  // also cut what would otherwise be unrolled, or nest, without bound.
  void choose_forms() {
    struct InPlace {
      std::int64_t copies = 1;  // of the code, by unrolled reductions
      int depth = 0;
    };
    std::vector<InPlace> in_place(kernel_.values.size());
    for_each_op(kernel_.body, [&](OpId id, const Op& op) {
      InPlace sum;
      for (const ValueId operand : op.operands) {
        if (!plan_.is_inline(operand)) continue;
        sum.copies = std::max(sum.copies, in_place[operand.index].copies);
        sum.depth = std::max(sum.depth, in_place[operand.index].depth + 1);
      }
      if (op.code == Opcode::Reduce && !along_lanes(op)) {
        plan_.inline_reduce_[id.index] = 1;
        const std::int64_t extent =
            kernel_.type(op.operands[0]).extents[static_cast<std::size_t>(op.attributes.axes[0])];
        const bool unrolled = extent <= kUnrolledReduce;
        if (unrolled && sum.copies * extent > kMostCopies) {
          for (const ValueId value : plan_.computed_for(op.operands[0])) {
            const OpId definer = plan_.definer_[value.index];
            if (definer && kernel_.op(definer).code == Opcode::Reduce) materialize(kernel_.op(definer));
          }
          sum.copies = 1;
        }
        if (unrolled) {
          sum.copies *= extent;
        } else {
          materialize(op);
        }
      } else if (op.code == Opcode::Reshape && !plan_.is_scalar(op.operands[0]) &&
                 without_unit_axes(kernel_.type(op.operands[0]).extents) !=
                     without_unit_axes(kernel_.type(op.results[0]).extents)) {
        plan_.materialized_[op.operands[0].index] = 1;
        plan_.dense_[op.operands[0].index] = 1;
      }
      if (sum.depth > kDeepest) materialize(op);
      for (const ValueId result : op.results) in_place[result.index] = sum;
    });
  }
  void materialize(const Op& op) {
    for (const ValueId result : op.results) {
      if (!plan_.is_scalar(result) && !kernel_.type(result).is_view()) plan_.materialized_[result.index] = 1;
    }
  }
  bool along_lanes(const Op& op) const {
    const std::vector<std::int64_t>& extents = kernel_.type(op.operands[0]).extents;
    const auto axis = static_cast<std::size_t>(op.attributes.axes[0]);
    if (extents[axis] == 1) return false;
    if (without_unit_axes(extents).size() == 1) return true;
    const Root root{Root::Kind::Store, OpId::none(), op.operands[0]};
    int squeezed = 0;
    for (std::size_t k = 0; k < axis; ++k) squeezed += extents[k] != 1 ? 1 : 0;
    // Only the tile's own accesses vote: a Root without an Op has no view.
    return contiguous_of(root) == squeezed;
  }
  int contiguous_of(const Root& root) const {
    Root probe = root;
    probe.kind = Root::Kind::AtomicAdd;
    return plan_.lane_axis({probe});
  }

  void add_memories(ValueId view, MemorySet& set) const {
    const OpId definer = plan_.definer_[view.index];
    if (!definer) {
      for (std::size_t k = 0; k < kernel_.parameters.size(); ++k) {
        if (kernel_.parameters[k].value == view) set.insert(static_cast<std::int64_t>(k));
      }
      return;
    }
    const Op& op = kernel_.op(definer);
    if (op.code == Opcode::Local) {
      set.insert(-1 - static_cast<std::int64_t>(view.index));
      return;
    }
    for (const ValueId operand : op.operands) {
      if (kernel_.type(operand).is_view()) add_memories(operand, set);
    }
  }
  MemorySet memories(ValueId view) const {
    MemorySet set;
    add_memories(view, set);
    return set;
  }
  bool may_alias(const MemorySet& a, const MemorySet& b) const {
    const auto group = [&](std::int64_t memory) {
      return memory < 0 ? 0 : kernel_.parameters[static_cast<std::size_t>(memory)].alias_group;
    };
    return std::any_of(a.begin(), a.end(), [&](std::int64_t x) {
      return std::any_of(b.begin(), b.end(),
                         [&](std::int64_t y) { return x == y || (group(x) != 0 && group(x) == group(y)); });
    });
  }
  MemorySet written_by(const Op& op) const {
    MemorySet set;
    if (op.code == Opcode::Store || op.code == Opcode::AtomicAdd) add_memories(op.operands[0], set);
    for (const BlockId block : op.blocks) {
      for_each_op(block, [&](OpId, const Op& inner) {
        if (inner.code == Opcode::Store || inner.code == Opcode::AtomicAdd)
          add_memories(inner.operands[0], set);
      });
    }
    return set;
  }
  MemorySet read_by(ValueId value) const {
    MemorySet set;
    plan_.walk(value, [&](ValueId id) {
      const OpId definer = plan_.definer_[id.index];
      if (definer && kernel_.op(definer).code == Opcode::Load)
        add_memories(kernel_.op(definer).operands[0], set);
    });
    return set;
  }

  // Forms the Groups of a Block: a Root joins the open Group if it runs over the same space, needs none of
  // its results, and if delaying the earlier Roots to its place reorders no conflicting accesses.
  void group_block(BlockId block) {
    std::vector<Root> open;
    std::vector<std::int64_t> extents;
    MemorySet reads, writes;
    std::set<ValueId> results;
    const auto close = [&] {
      if (!open.empty()) {
        Group group;
        group.roots = open;
        group.extents = extents;
        group.lane_axis = plan_.lane_axis(open);
        for (const Root& root : open) group.work += plan_.work(root.value);
        const OpId last = open.back().op;
        plan_.group_at_[last.index] = static_cast<int>(plan_.groups_.size());
        plan_.groups_.push_back(std::move(group));
      }
      open.clear();
      reads.clear();
      writes.clear();
      results.clear();
    };
    const auto needs_results = [&](ValueId value) {
      bool needs = results.count(value) != 0;
      if (!results.empty() && plan_.is_inline(value)) {
        plan_.walk(value, [&](ValueId id) { needs = needs || results.count(id) != 0; });
      }
      return needs;
    };
    const auto join = [&](std::vector<Root> roots) {
      const Root& root = roots[0];
      const Op& op = kernel_.op(root.op);
      const std::vector<std::int64_t> space = without_unit_axes(plan_.space(root));
      MemorySet root_reads, root_writes;
      for (const Root& r : roots) root_reads.merge(read_by(r.value));
      const bool stores = root.kind == Root::Kind::Store || root.kind == Root::Kind::AtomicAdd;
      if (stores) root_writes = memories(op.operands[0]);
      // A tile that the open Group materialises may be used strip by strip, before it is complete.
      bool needed = false;
      plan_.walk(root.value, [&](ValueId id) {
        needed =
            needed || (results.count(id) != 0 && (plan_.is_scalar(id) || !plan_.materialized_[id.index] ||
                                                  !plan_.is_elementwise_of(root.value, id)));
      });
      for (const ValueId operand : op.operands) {
        needed = needed || (plan_.is_scalar(operand) && results.count(operand) != 0);
      }
      bool fits = !open.empty() && space == extents && !needed && root.kind != Root::Kind::AtomicAdd &&
                  open[0].kind != Root::Kind::AtomicAdd && open.size() < 8 &&
                  !may_alias(root_reads, writes) && !may_alias(root_writes, reads) &&
                  !may_alias(root_writes, writes);
      if (fits) {
        std::vector<Root> together = open;
        together.insert(together.end(), roots.begin(), roots.end());
        fits = plan_.lane_axis(open) == plan_.lane_axis(roots) || !has_fixed_lanes(together);
      }
      if (!fits) close();
      open.insert(open.end(), roots.begin(), roots.end());
      extents = space;
      reads.merge(root_reads);
      writes.merge(root_writes);
      for (const Root& r : roots) {
        if (r.kind == Root::Kind::Materialize) results.insert(r.value);
        if (r.kind == Root::Kind::ReduceLanes) results.insert(op.results.begin(), op.results.end());
      }
    };
    for (const OpId id : kernel_.block(block).ops) {
      const Op& op = kernel_.op(id);
      switch (op.code) {
        case Opcode::Store:
          join({{Root::Kind::Store, id, op.operands.back()}});
          break;
        case Opcode::AtomicAdd:
          join({{Root::Kind::AtomicAdd, id, op.operands.back()}});
          break;
        case Opcode::Reduce:
          if (!plan_.inline_reduce_[id.index]) {
            join({{Root::Kind::ReduceLanes, id, op.operands[0]}});
            break;
          }
          [[fallthrough]];
        default:
          if (std::vector<Root> roots = materialized_results(id); !roots.empty()) {
            join(std::move(roots));
            break;
          }
          // A scalar is computed at once: what it needs must be there, and what it loads must be up to date.
          if (op.results.empty() || !plan_.is_scalar(op.results[0])) break;
          if (std::any_of(op.operands.begin(), op.operands.end(), needs_results) ||
              (op.code == Opcode::Load && may_alias(memories(op.operands[0]), writes))) {
            close();
          }
          break;
        case Opcode::For:
        case Opcode::If:
        case Opcode::Contract:
        case Opcode::Dot:
        case Opcode::Scan:
        case Opcode::Concat:
        case Opcode::Yield:
          close();
          for (const BlockId inner : op.blocks) group_block(inner);
          break;
      }
    }
    close();
  }
  static bool has_fixed_lanes(const std::vector<Root>& roots) {
    return std::any_of(roots.begin(), roots.end(),
                       [](const Root& r) { return r.kind == Root::Kind::ReduceLanes; });
  }
  std::vector<Root> materialized_results(OpId id) const {
    std::vector<Root> roots;
    const Op& op = kernel_.op(id);
    if (!plan_.is_pure_tile_op(op) && op.code != Opcode::Reduce) return roots;
    for (const ValueId result : op.results) {
      if (plan_.materialized_[result.index] && plan_.has_users(result)) {
        roots.push_back({Root::Kind::Materialize, id, result});
      }
    }
    return roots;
  }

  Site emission_site(OpId op) const {
    const Site own = site_[op.index];
    for (const Group& group : plan_.groups_) {
      for (const Root& root : group.roots) {
        if (root.op == op) return site_[group.roots.back().op.index];
      }
    }
    return own;
  }

  // Walks backwards, so that the places where a value is computed are known before its operands are decided.
  void choose_buffers(BlockId block) {
    const std::vector<OpId>& ops = kernel_.block(block).ops;
    for (auto id = ops.rbegin(); id != ops.rend(); ++id) {
      const Op& op = kernel_.op(*id);
      for (const BlockId inner : op.blocks) choose_buffers(inner);
      for (const ValueId result : op.results) decide(*id, result);
    }
  }
  void decide(OpId id, ValueId value) {
    const Op& op = kernel_.op(id);
    if (kernel_.type(value).is_view() || plan_.is_scalar(value)) return;
    std::set<Site> sites;
    for (const OpId user : plan_.users_[value.index]) {
      const Op& consumer = kernel_.op(user);
      const bool passes_on = !consumer.results.empty() && plan_.is_inline(consumer.results[0]);
      if (!passes_on) {
        sites.insert(emission_site(user));
        continue;
      }
      for (const ValueId result : consumer.results) {
        sites.insert(sites_[result.index].begin(), sites_[result.index].end());
      }
    }
    if (plan_.is_inline(value)) {
      const bool reduce = op.code == Opcode::Reduce;
      const bool repeated =
          sites.size() > 1 || std::any_of(sites.begin(), sites.end(), [&](const Site& site) {
            return crosses_loop(site_[id.index].block, site.block);
          });
      const bool stale = op.code == Opcode::Load &&
                         std::any_of(sites.begin(), sites.end(),
                                     [&](const Site& site) { return overwritten(id, value, site); });
      if (stale || (repeated && (reduce || plan_.work(value) >= kCheapWork))) {
        for (const ValueId result : op.results) plan_.materialized_[result.index] = 1;
      }
    }
    sites_[value.index] = plan_.is_inline(value) ? std::move(sites) : std::set<Site>{site_[id.index]};
  }
  // Whether `inner` is `outer` or nested in it, with a loop between.
  bool crosses_loop(BlockId outer, BlockId inner) const {
    for (BlockId block = inner; block != outer;) {
      const OpId owner = parent_[block.index];
      if (!owner) return false;
      const Opcode code = kernel_.op(owner).code;
      if (code == Opcode::For || code == Opcode::Contract) return true;
      block = site_[owner.index].block;
    }
    return false;
  }
  // Whether memory that the load reads may be written between the load and the place that computes it.
  bool overwritten(OpId load, ValueId value, const Site& site) const {
    const MemorySet source = memories(kernel_.op(load).operands[0]);
    const Site own = site_[load.index];
    // The Op of the load's own Block that contains the place.
    int end = site.position;
    BlockId block = site.block;
    const bool nested = block != own.block;
    while (block != own.block) {
      const OpId owner = parent_[block.index];
      if (!owner) return true;
      end = site_[owner.index].position;
      block = site_[owner.index].block;
    }
    const std::vector<OpId>& ops = kernel_.block(own.block).ops;
    for (int position = own.position + 1; position <= end; ++position) {
      const OpId id = ops[static_cast<std::size_t>(position)];
      const Op& op = kernel_.op(id);
      if (!may_alias(source, written_by(op))) continue;
      // A store at the place itself may overwrite exactly the elements that it was computed from.
      const bool own_store = position == end && !nested && op.code == Opcode::Store &&
                             stores_where_it_loads(op, kernel_.op(load)) &&
                             plan_.is_elementwise_of(op.operands.back(), value);
      if (!own_store) return true;
    }
    return false;
  }
  bool stores_where_it_loads(const Op& store, const Op& load) const {
    const std::size_t indices = kernel_.type(store.operands[0]).extents.size();
    return std::equal(store.operands.begin(),
                      store.operands.begin() + 1 + static_cast<std::ptrdiff_t>(indices),
                      load.operands.begin()) &&
           without_unit_axes(kernel_.type(store.operands.back()).extents) ==
               without_unit_axes(kernel_.type(load.results[0]).extents);
  }

  Plan& plan_;
  const Kernel& kernel_;
  std::vector<Site> site_;                         // by op
  std::vector<OpId> parent_;                       // by block: the Op that it belongs to
  std::map<std::uint32_t, std::set<Site>> sites_;  // by value: where it is computed
};

Plan::Plan(const Kernel& kernel) : kernel_(kernel) { Planner(*this).run(); }

}  // namespace kiln::jit::cpu
