// What passes share to change a Kernel in place.
#pragma once

#include <unordered_map>

#include "ir/tile/kernel.h"

namespace kiln::tile {

// Values that stand for others.
class Substitution {
 public:
  void set(ValueId from, ValueId to) { map_[from] = (*this)(to); }
  bool empty() const { return map_.empty(); }
  ValueId operator()(ValueId id) const {
    const auto found = map_.find(id);
    return found == map_.end() ? id : found->second;
  }
  // Replaces operands everywhere.
  void apply(Kernel& kernel) const {
    for (Op& op : kernel.ops) {
      for (ValueId& operand : op.operands) operand = (*this)(operand);
    }
  }

 private:
  std::unordered_map<ValueId, ValueId> map_;
};

// Drops Values, Ops and Blocks that nothing lists any more, and numbers the rest in order of definition.
void compact(Kernel& kernel);

}  // namespace kiln::tile
