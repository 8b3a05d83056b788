// Random dots over random views, equal to the interpreter: whole numbers, so that sums are exact in any
// order.
#include <algorithm>

#include "ir/tile/text.h"
#include "tests/jit/cpu/dot_testing.h"

namespace kiln {
namespace {

using namespace dot_testing;
using tile::Expr;
using tile::Exprs;
using tile::Index;
using tile::Indices;
using tile::kDynamic;
using tile::Kernel;
using tile::KernelBuilder;
using tile::Schedule;
using tile::Type;
using tile::View;

using Extents = std::vector<std::int64_t>;

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool maybe(int percent) { return pick(1, 100) <= percent; }

  Kernel build() {
    KernelBuilder k("dot");
    const bool batched = maybe(30);
    const Extents batch = batched ? Extents{pick(1, 3)} : Extents{};
    const Extents rows = axes(2, 9), columns = axes(2, 21), depth = axes(maybe(25) ? 2 : 1, 9);
    const Extents steps = maybe(60) ? axes(2, 3) : Extents{};  // indices of a contract beside the depth's
    const bool blocked = depth.size() == 1 && maybe(60);       // the contract runs along the depth too
    const bool grid = maybe(70);

    // The axes of A and B: batch, free or steps, depth, in the order of the matrix.
    const std::size_t units = steps.size();
    const auto concat = [](std::initializer_list<Extents> parts) {
      Extents all;
      for (const Extents& part : parts) all.insert(all.end(), part.begin(), part.end());
      return all;
    };
    const Extents ones(units, 1);
    const Extents a_box = concat({batch, rows, ones, depth}), b_box = concat({batch, ones, depth, columns});
    const View a = view(k, "a", concat({batch, rows, steps, depth}));
    const View b = view(k, "b", concat({batch, steps, depth, columns}));
    const Extents result = concat({batch, rows, columns});
    Extents y_extents = concat({{2, 2}, result});
    const View y = k.output("y", Type::view(DType::F32, y_extents));
    arrays_.emplace_back(DType::F32, y_extents);
    k.grid([&] { return grid ? Indices{2, 2} : Indices{1, 1}; });
    const Expr p = k.program_id(0), q = k.program_id(1);

    const auto start = [&](std::size_t axis_count) {
      Indices at;
      for (std::size_t i = 0; i < axis_count; ++i) at.emplace_back(maybe(20) ? pick(-2, 2) : 0);
      return at;
    };
    Indices a_at = start(a_box.size()), b_at = start(b_box.size());
    if (!rows.empty()) a_at[batch.size()] = p * static_cast<double>(rows[0]);
    if (!columns.empty()) b_at[b_at.size() - columns.size()] = q * static_cast<double>(columns[0]);
    const std::size_t a_steps = batch.size() + rows.size(), b_steps = batch.size();
    const auto flat = [&](Expr tile, const Extents& first, const Extents& second, std::int64_t depth_extent,
                          bool depth_last) {
      if (depth.size() == 1) return tile;
      Extents shape = concat(
          {batch, depth_last ? first : Extents{depth_extent}, depth_last ? Extents{depth_extent} : second});
      return k.reshape(tile, shape);
    };
    const std::int64_t depth_product = product(depth);
    const auto product_of = [&](Expr accumulator) {
      const Expr left = flat(a.load(a_at, a_box), rows, {}, depth_product, true);
      const Expr right = flat(b.load(b_at, b_box), {}, columns, depth_product, false);
      Expr l = left;
      if (maybe(15)) l = tile::apply(tile::Function::Max, {left, k.constant(DType::F32, 0)});
      return k.dot(accumulator, l, right, static_cast<int>(batch.size()));
    };
    const Expr initial = maybe(80) ? k.zeros(DType::F32, result) : k.full(DType::F32, result, 3);
    Expr sum = initial;
    if (!steps.empty() || blocked) {
      Indices extents;
      Extents blocks;
      for (const std::int64_t step : steps) {
        extents.emplace_back(step);
        blocks.push_back(1);
      }
      if (blocked) {
        const View& by = maybe(50) ? a : b;
        extents.emplace_back(maybe(50) ? Index(by.dim(static_cast<int>(&by == &a ? a_steps : b_steps) +
                                                      static_cast<int>(units)))
                                       : Index(depth[0] * pick(0, 3)));
        blocks.push_back(depth[0]);
      }
      sum = k.contract(extents, blocks, {initial}, [&](const Exprs& at, const Exprs& carried) -> Exprs {
        for (std::size_t i = 0; i < units; ++i) a_at[a_steps + i] = b_at[b_steps + i] = at[i];
        if (blocked) a_at[a_steps + units] = b_at[b_steps + units] = at[units];
        return {product_of(carried[0])};
      })[0];
    } else {
      sum = product_of(initial);
    }
    Indices y_at{p, q};
    for (std::size_t i = 0; i < result.size(); ++i) y_at.emplace_back(0);
    y.store(y_at, k.reshape(maybe(30) ? sum * 2.0 + 1.0 : sum, concat({{1, 1}, result})));
    return k.finish();
  }

  Schedule schedule() {
    Schedule schedule;
    schedule.pack_a = maybe(20);
    schedule.pack_b = maybe(20);
    if (maybe(30)) schedule.contract_block = pick(1, 9);
    if (maybe(30)) schedule.contract_unroll = static_cast<int>(pick(1, 3));
    if (maybe(30)) schedule.grid_order = {1, 0};
    return schedule;
  }
  std::vector<Array>& arrays() { return arrays_; }

 private:
  Extents axes(std::int64_t most, std::int64_t greatest) {
    Extents extents;
    for (std::int64_t i = pick(1, most); i > 0; --i) extents.push_back(pick(1, greatest));
    return extents;
  }

  // A view of about these extents, through random combinators, of an array that is made for it.
  View view(KernelBuilder& k, const std::string& name, const Extents& wanted) {
    const std::size_t rank = wanted.size();
    Extents extents;
    for (const std::int64_t extent : wanted)
      extents.push_back(std::max<std::int64_t>(1, extent + pick(-1, 3)));
    std::vector<std::int64_t> permutation(rank);
    for (std::size_t i = 0; i < rank; ++i) permutation[i] = static_cast<std::int64_t>(i);
    if (maybe(40)) std::shuffle(permutation.begin(), permutation.end(), random_);
    // Memory axis permutation[i] becomes axis i.
    Extents memory(rank), declared(rank);
    for (std::size_t i = 0; i < rank; ++i) memory[static_cast<std::size_t>(permutation[i])] = extents[i];
    const bool dynamic = maybe(50);
    for (std::size_t i = 0; i < rank; ++i) declared[i] = dynamic && maybe(60) ? kDynamic : memory[i];
    View result = k.input(name, Type::view(DType::F32, declared));
    Array array(DType::F32, memory);
    for (std::int64_t i = 0; i < array.elements(); ++i) array.set(i, static_cast<double>(pick(-4, 4)));
    arrays_.push_back(std::move(array));
    if (maybe(25)) {
      Indices offsets, sizes;
      std::vector<std::int64_t> slice_steps;
      for (std::size_t i = 0; i < rank; ++i) {
        const bool back = maybe(15);
        offsets.emplace_back(back ? memory[i] - 1 : pick(0, 1));
        sizes.emplace_back(std::max<std::int64_t>(1, memory[i] - pick(0, 1)));
        slice_steps.push_back(back ? -1 : maybe(10) ? 2 : 1);
      }
      result = result.slice(offsets, sizes, slice_steps);
    }
    if (maybe(25)) {
      Indices low, high;
      for (std::size_t i = 0; i < rank; ++i) {
        low.emplace_back(maybe(30) ? pick(0, 2) : 0);
        high.emplace_back(maybe(30) ? pick(0, 2) : 0);
      }
      result = result.pad(low, high, tile::PadMode::Constant, maybe(20) ? 2 : 0);
    }
    return result.transpose(permutation);
  }

  std::mt19937 random_;
  std::vector<Array> arrays_;
};

class DotRandom : public testing::TestWithParam<unsigned> {};

TEST_P(DotRandom, EqualsTheInterpreter) {
  for (unsigned i = 0; i < 20; ++i) {
    const unsigned seed = GetParam() * 1000 + i;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Generator generator(seed);
    const Kernel kernel = generator.build();
    const Schedule schedule = generator.schedule();
    std::vector<Array>& arrays = generator.arrays();
    std::vector<Array*> pointers;
    for (Array& array : arrays) pointers.push_back(&array);
    const auto clear = [&] {
      for (std::int64_t e = 0; e < arrays.back().elements(); ++e) arrays.back().set(e, -1e6);
    };
    clear();
    run_interpreted(kernel, pointers);
    const Array want = arrays.back();
    for (const Isa isa : isas()) {
      clear();
      run_compiled(kernel, schedule, isa, pointers);
      for (std::int64_t e = 0; e < want.elements(); ++e) {
        ASSERT_EQ(arrays.back().at(e), want.at(e)) << name(isa) << " element " << e << "\n"
                                                   << tile::print(kernel);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DotRandom, testing::Values(0u, 1u, 115u, 122u, 137u, 144u));

}  // namespace
}  // namespace kiln
