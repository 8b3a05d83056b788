// Gather and scatter against plain loops.
#include "tests/ir/tile/paper_testing.h"

namespace kiln::tile {
namespace {

TEST(PaperMovement, Embedding) {
  const Kernel kernel = paper_kernel("embedding", "embedding");
  for (const std::int64_t depth : {1, 7, 8, 9}) {
    Floats table = random_floats({11, depth}, 1), y({2, 5, depth});
    Array<std::int64_t> ids({2, 5});
    for (std::size_t i = 0; i < ids.data.size(); ++i)
      ids.data[i] = static_cast<std::int64_t>(i * 7 % 22) - 11;
    run(kernel, {table, ids, y});
    Floats want(y.extents);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t s = 0; s < 5; ++s) {
        for (std::int64_t d = 0; d < depth; ++d) want(b, s, d) = table((ids(b, s) + 11) % 11, d);
      }
    }
    EXPECT_EQ(y.data, want.data);
  }
}

TEST(PaperMovement, EmbeddingRefusesAnIdOutOfRange) {
  const Kernel kernel = paper_kernel("embedding", "embedding");
  Floats table = random_floats({11, 4}, 1), y({1, 1, 4});
  for (const std::int64_t id : {11, -12}) {
    Array<std::int64_t> ids({1, 1}, id);
    try {
      run(kernel, {table, ids, y});
      ADD_FAILURE() << "no error for " << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::IndexOutOfRange) << error.what();
    }
  }
}

TEST(PaperMovement, ScatterAdd) {
  const Kernel kernel = paper_kernel("scatter_add", "scatter_add");
  for (const std::int64_t count : {1, 4, 13}) {
    Floats updates = random_floats({count, 9}, 2), y = random_floats({5, 9}, 3);
    Array<std::int64_t> ids({count});
    for (std::int64_t i = 0; i < count; ++i) ids(i) = i * i % 5;
    Array<double> want(y.extents);
    for (std::size_t i = 0; i < y.data.size(); ++i) want.data[i] = y.data[i];
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t d = 0; d < 9; ++d) want(ids(i), d) += updates(i, d);
    }
    run(kernel, {ids, updates, y});
    expect_close(y, want, 1e-6);
  }
}

}  // namespace
}  // namespace kiln::tile
