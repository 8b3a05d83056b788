// Decision trees that vote. Shape inference has checked that the node's attributes describe trees.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

enum class Branch : std::int64_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member };
enum class Aggregate : std::int64_t { Average, Sum, Min, Max };

class Ensemble {
 public:
  explicit Ensemble(const graph::Node& node)
      : node_(node),
        features_(integers(node, "nodes_featureids")),
        modes_(integers(node, "nodes_modes")),
        yes_(integers(node, "nodes_truenodeids")),
        no_(integers(node, "nodes_falsenodeids")),
        missing_(integers(node, "nodes_missing_value_tracks_true")),
        splits_(numbers(node, "nodes_splits")),
        roots_(integers(node, "tree_roots")),
        leaf_starts_(integers(node, "leaf_starts")),
        targets_(integers(node, "leaf_targetids")),
        weights_(numbers(node, "leaf_weights")),
        aggregate_(static_cast<Aggregate>(integer(node, "aggregate_function"))) {}

  // The result for one row, into `y` with one element for each target.
  template <typename T>
  void evaluate(const T* x, std::vector<double>& y) const {
    const double start = aggregate_ == Aggregate::Min   ? std::numeric_limits<double>::infinity()
                         : aggregate_ == Aggregate::Max ? -std::numeric_limits<double>::infinity()
                                                        : 0;
    y.assign(y.size(), start);
    for (const std::int64_t root : roots_) {
      const auto leaf = static_cast<std::size_t>(leaf_of(root, x));
      for (auto i = static_cast<std::size_t>(leaf_starts_[leaf]);
           i < static_cast<std::size_t>(leaf_starts_[leaf + 1]); ++i) {
        double& target = y[static_cast<std::size_t>(targets_[i])];
        switch (aggregate_) {
          case Aggregate::Average:
          case Aggregate::Sum:
            target += weights_[i];
            break;
          case Aggregate::Min:
            target = std::min(target, weights_[i]);
            break;
          case Aggregate::Max:
            target = std::max(target, weights_[i]);
            break;
        }
      }
    }
    const bool base = has(node_, "base_values");
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (aggregate_ == Aggregate::Average) y[i] /= static_cast<double>(roots_.size());
      if (std::isinf(start) && y[i] == start) y[i] = 0;  // no leaf of this target was reached
      if (base) y[i] += numbers(node_, "base_values")[i];
    }
  }

 private:
  template <typename T>
  std::int64_t leaf_of(std::int64_t place, const T* x) const {
    while (place >= 0) {
      const auto i = static_cast<std::size_t>(place);
      const auto value = static_cast<double>(static_cast<Compute<T>>(x[features_[i]]));
      const bool yes = takes(i, value) || (missing_[i] != 0 && std::isnan(value));
      place = yes ? yes_[i] : no_[i];
    }
    return ~place;
  }

  bool takes(std::size_t i, double value) const {
    switch (static_cast<Branch>(modes_[i])) {
      case Branch::LessOrEqual:
        return value <= splits_[i];
      case Branch::Less:
        return value < splits_[i];
      case Branch::GreaterOrEqual:
        return value >= splits_[i];
      case Branch::Greater:
        return value > splits_[i];
      case Branch::Equal:
        return value == splits_[i];
      case Branch::NotEqual:
        return value != splits_[i];
      case Branch::Member: {
        const auto starts = integers(node_, "membership_starts");
        const auto set = static_cast<std::size_t>(splits_[i]);
        const auto begin = static_cast<std::size_t>(starts[set]),
                   end = static_cast<std::size_t>(starts[set + 1]);
        for (const double member : numbers(node_, "membership_values").subspan(begin, end - begin)) {
          if (value == member) return true;
        }
        return false;
      }
    }
    throw_bug("a tree has a node of the unknown mode {}", modes_[i]);
  }

  const graph::Node& node_;
  std::span<const std::int64_t> features_, modes_, yes_, no_, missing_;
  std::span<const double> splits_;
  std::span<const std::int64_t> roots_, leaf_starts_, targets_;
  std::span<const double> weights_;
  Aggregate aggregate_;
};

}  // namespace

void tree_ensemble(Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank() < 1 || x.rank() > 2) {
    throw_caller(ErrorCode::ShapeMismatch, "expected an input of [N, F] or [F], got {}",
                 to_string(x.extents()));
  }
  const std::int64_t width = x.extents().back(), rows = x.rank() == 2 ? x.extents()[0] : 1;
  for (const std::int64_t feature : integers(call.node, "nodes_featureids")) {
    if (feature >= width) {
      throw_caller(ErrorCode::ShapeMismatch, "the trees read feature {}, the input has {}", feature, width);
    }
  }
  const Ensemble ensemble(call.node);
  const std::int64_t targets = integer(call.node, "n_targets");
  Tensor& y = call.output(0, x.dtype(), {rows, targets});
  const auto trees = static_cast<std::int64_t>(integers(call.node, "tree_roots").size());
  dispatch(Floats{}, x.dtype(), [&]<typename T>() {
    const T* from = x.as<T>().data();
    T* to = y.as_mutable<T>().data();
    for_range(call, rows, 16 * trees, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> result(static_cast<std::size_t>(targets));
      for (std::int64_t row = begin; row < end; ++row) {
        ensemble.evaluate(from + row * width, result);
        for (std::int64_t k = 0; k < targets; ++k) {
          to[row * targets + k] = convert<T>(result[static_cast<std::size_t>(k)]);
        }
      }
    });
  });
}

}  // namespace kiln::reference
