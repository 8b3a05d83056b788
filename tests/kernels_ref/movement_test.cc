#include <cstdint>
#include <numeric>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Ints = std::vector<std::int64_t>;

Tensor counting(Extents extents) {
  Tensor x(DType::I32, std::move(extents));
  std::iota(x.as_mutable<std::int32_t>().begin(), x.as_mutable<std::int32_t>().end(), 0);
  return x;
}

TEST(Transpose, MatchesIndexing) {
  const Tensor x = counting({2, 3, 5});
  const Tensor y = run(OpKind::Transpose, {x}, {{"perm", Ints{2, 0, 1}}});
  ASSERT_EQ(y.extents(), (Extents{5, 2, 3}));
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 2; ++j)
      for (std::int64_t k = 0; k < 3; ++k)
        EXPECT_EQ(y.as<std::int32_t>()[static_cast<std::size_t>((i * 2 + j) * 3 + k)], (j * 3 + k) * 5 + i);
  EXPECT_EQ(run(OpKind::Transpose, {counting({7})}), counting({7}));
  EXPECT_EQ(run(OpKind::Transpose, {counting({3, 0, 2})}).extents(), (Extents{2, 0, 3}));
}

TEST(Transpose, PackedElements) {
  const Tensor x = run(OpKind::Cast, {exact<std::int8_t>({3, 3}, {1, 2, 3, 4, 5, 6, 7, -8, -1})},
                       {{"to", std::int64_t{static_cast<int>(DType::I4)}}});
  const Tensor y = run(OpKind::Transpose, {x});
  EXPECT_EQ(y.dtype(), DType::I4);
  expect_values(run(OpKind::Cast, {y}, {{"to", std::int64_t{static_cast<int>(DType::I8)}}}), {3, 3},
                {1, 4, 7, 2, 5, -8, 3, 6, -1});
}

TEST(Views, ShareTheirBytes) {
  const Tensor x = counting({2, 3, 4});
  const Tensor y = run(OpKind::Reshape, {x, integers({0, -1})});
  EXPECT_EQ(y.extents(), (Extents{2, 12}));
  EXPECT_EQ(y.data(), x.data());
  EXPECT_EQ(run(OpKind::Flatten, {x}, {{"axis", std::int64_t{2}}}).extents(), (Extents{6, 4}));
  EXPECT_EQ(run(OpKind::Flatten, {x}, {{"axis", std::int64_t{0}}}).extents(), (Extents{1, 24}));
  EXPECT_EQ(run(OpKind::Unsqueeze, {x, integers({0, -1})}).extents(), (Extents{1, 2, 3, 4, 1}));
  EXPECT_EQ(run(OpKind::Squeeze, {counting({1, 3, 1})}).extents(), (Extents{3}));
  EXPECT_EQ(run(OpKind::Squeeze, {counting({1, 3, 1}), integers({-1})}).extents(), (Extents{1, 3}));
  EXPECT_EQ(error_of(OpKind::Squeeze, {x, integers({0})}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(error_of(OpKind::Reshape, {x, integers({5, -1})}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(
      run(OpKind::Reshape, {Tensor(DType::F32, {0, 3}), integers({3, 0})}, {{"allowzero", std::int64_t{1}}})
          .extents(),
      (Extents{3, 0}));
}

TEST(Slice, StepsAndClamps) {
  const Tensor x = counting({10});
  const auto sliced = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
    return values(
        run(OpKind::Slice, {x, integers({start}), integers({end}), integers({0}), integers({step})}));
  };
  EXPECT_EQ(sliced(2, 8, 3), (std::vector<double>{2, 5}));
  EXPECT_EQ(sliced(-3, INT64_MAX, 1), (std::vector<double>{7, 8, 9}));
  EXPECT_EQ(sliced(100, INT64_MIN, -4), (std::vector<double>{9, 5, 1}));
  EXPECT_EQ(sliced(0, 5, INT64_MAX), (std::vector<double>{0}));
  EXPECT_EQ(sliced(9, -100, INT64_MIN), (std::vector<double>{9}));
  EXPECT_EQ(sliced(5, 5, 1), (std::vector<double>{}));
  EXPECT_EQ(sliced(8, 2, 1), (std::vector<double>{}));
  expect_values(run(OpKind::Slice, {counting({3, 4}), integers({1, 3}), integers({3, 0}), integers({0, 1}),
                                    integers({1, -2})}),
                {2, 2}, {7, 5, 11, 9});
  EXPECT_EQ(error_of(OpKind::Slice, {x, integers({0}), integers({1}), integers({0}), integers({0})}),
            ErrorCode::InvalidArgument);
}

TEST(Concat, SplitsBack) {
  const Tensor x = counting({2, 7, 3});
  const std::vector<Tensor> parts =
      run_all(OpKind::Split, {x, integers({1, 0, 4, 2})}, {{"axis", std::int64_t{1}}}, 4);
  EXPECT_EQ(parts[2].extents(), (Extents{2, 4, 3}));
  EXPECT_EQ(run(OpKind::Concat, {parts[0], parts[1], parts[2], parts[3]}, {{"axis", std::int64_t{-2}}}), x);
  const std::vector<Tensor> uneven =
      run_all(OpKind::Split, {counting({7})}, {{"num_outputs", std::int64_t{3}}}, 3);
  EXPECT_EQ(values(uneven[2]), (std::vector<double>{6}));
  EXPECT_EQ(error_of(OpKind::Concat, {x, counting({2, 7, 4})}, {{"axis", std::int64_t{1}}}),
            ErrorCode::ShapeMismatch);
}

TEST(Pad, Modes) {
  const Tensor x = tensor({3}, {1, 2, 3});
  const auto padded = [&](const char* mode, std::int64_t before, std::int64_t after) {
    return values(
        run(OpKind::Pad, {x, integers({before, after}), tensor({}, {9})}, {{"mode", std::string(mode)}}));
  };
  EXPECT_EQ(padded("constant", 2, 1), (std::vector<double>{9, 9, 1, 2, 3, 9}));
  EXPECT_EQ(padded("edge", 2, 1), (std::vector<double>{1, 1, 1, 2, 3, 3}));
  EXPECT_EQ(padded("reflect", 5, 3), (std::vector<double>{2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2}));
  EXPECT_EQ(padded("wrap", 4, 2), (std::vector<double>{3, 1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(padded("constant", -1, 1), (std::vector<double>{2, 3, 9}));
  EXPECT_EQ(padded("constant", -1, -1), (std::vector<double>{2}));
  expect_values(
      run(OpKind::Pad, {tensor({2, 2}, {1, 2, 3, 4}), integers({1, 0}), std::nullopt, integers({-1})}),
      {2, 3}, {0, 1, 2, 0, 3, 4});
  EXPECT_EQ(error_of(OpKind::Pad, {x, integers({-2, -2})}), ErrorCode::ShapeMismatch);
  EXPECT_EQ(
      error_of(OpKind::Pad, {Tensor(DType::F32, {0}), integers({1, 0})}, {{"mode", std::string("edge")}}),
      ErrorCode::ShapeMismatch);
}

// Work and memory are those of the elements that there are, not of each extent.
TEST(Pad, ALongAxisOfNothing) {
  const std::int64_t huge = std::int64_t{1} << 48;
  const Tensor y = run(OpKind::Pad, {Tensor(DType::F32, {2, 0}), integers({huge, 0, 0, 0})});
  EXPECT_EQ(y.extents(), (Extents{huge + 2, 0}));
}

TEST(Tile, RepeatsEachAxis) {
  expect_values(run(OpKind::Tile, {counting({2, 2}), integers({2, 2})}), {4, 4},
                {0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3});
  EXPECT_EQ(run(OpKind::Tile, {counting({2, 2}), integers({0, 3})}).extents(), (Extents{0, 6}));
  expect_values(run(OpKind::Expand, {counting({2, 1}), integers({3, 1, 2})}), {3, 2, 2},
                {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1});
}

TEST(DepthToSpace, InvertsSpaceToDepth) {
  const Tensor x = counting({2, 3, 4, 6});
  const Tensor deep = run(OpKind::SpaceToDepth, {x}, {{"blocksize", std::int64_t{2}}});
  EXPECT_EQ(deep.extents(), (Extents{2, 12, 2, 3}));
  EXPECT_EQ(run(OpKind::DepthToSpace, {deep}, {{"blocksize", std::int64_t{2}}}), x);
  const Tensor small = counting({1, 8, 1, 1});
  expect_values(run(OpKind::DepthToSpace, {small}, {{"blocksize", std::int64_t{2}}}), {1, 2, 2, 2},
                {0, 2, 4, 6, 1, 3, 5, 7});
  expect_values(
      run(OpKind::DepthToSpace, {small}, {{"blocksize", std::int64_t{2}}, {"mode", std::string("CRD")}}),
      {1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(Gather, AxesAndNegativeIndices) {
  const Tensor x = counting({3, 4});
  expect_values(run(OpKind::Gather, {x, exact<std::int64_t>({2, 1}, {-1, 0})}), {2, 1, 4},
                {8, 9, 10, 11, 0, 1, 2, 3});
  expect_values(run(OpKind::Gather, {x, integers({2, 2})}, {{"axis", std::int64_t{1}}}), {3, 2},
                {2, 2, 6, 6, 10, 10});
  expect_values(run(OpKind::Gather, {x, Tensor::from_integer(1)}), {4}, {4, 5, 6, 7});
  expect_values(run(OpKind::GatherElements, {x, exact<std::int64_t>({2, 2}, {3, 0, -1, 1})},
                    {{"axis", std::int64_t{1}}}),
                {2, 2}, {3, 0, 7, 5});
  expect_values(run(OpKind::GatherND, {x, exact<std::int64_t>({2, 2}, {0, 1, -1, -1})}), {2}, {1, 11});
  expect_values(run(OpKind::GatherND, {counting({2, 2, 2}), exact<std::int64_t>({2, 1}, {1, 0})},
                    {{"batch_dims", std::int64_t{1}}}),
                {2, 2}, {2, 3, 4, 5});
}

TEST(Gather, IndexOutOfRange) {
  const Tensor x = counting({3, 4});
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-4}, INT64_MIN}) {
    EXPECT_EQ(error_of(OpKind::Gather, {x, integers({bad})}), ErrorCode::IndexOutOfRange);
    EXPECT_EQ(error_of(OpKind::GatherElements, {x, exact<std::int64_t>({1, 1}, {bad})}),
              ErrorCode::IndexOutOfRange);
    EXPECT_EQ(error_of(OpKind::GatherND, {x, exact<std::int64_t>({1, 1}, {bad})}),
              ErrorCode::IndexOutOfRange);
    EXPECT_EQ(error_of(OpKind::ScatterND,
                       {x, exact<std::int64_t>({1, 2}, {bad, 0}), exact<std::int32_t>({1}, {1})}),
              ErrorCode::IndexOutOfRange);
    EXPECT_EQ(error_of(OpKind::ScatterElements,
                       {x, exact<std::int64_t>({1, 1}, {bad}), exact<std::int32_t>({1, 1}, {1})}),
              ErrorCode::IndexOutOfRange);
  }
  EXPECT_EQ(error_of(OpKind::Compress, {integers({1, 2}), tensor<Boolean>({3}, {0, 0, 1})}),
            ErrorCode::IndexOutOfRange);
}

TEST(Scatter, ScatterOrder) {
  const Tensor x = tensor({4}, {1, 2, 3, 4}), at = integers({1, 1, -1}), by = tensor({3}, {10, 20, 30});
  expect_values(run(OpKind::ScatterElements, {x, at, by}), {4}, {1, 20, 3, 30});
  expect_values(run(OpKind::ScatterElements, {x, at, by}, {{"reduction", std::string("add")}}), {4},
                {1, 32, 3, 34});
  expect_values(run(OpKind::ScatterElements, {x, at, by}, {{"reduction", std::string("mul")}}), {4},
                {1, 400, 3, 120});
  expect_values(
      run(OpKind::ScatterElements, {x, at, tensor({3}, {1, kNan, 0})}, {{"reduction", std::string("max")}}),
      {4}, {1, kNan, 3, 4});
  expect_values(run(OpKind::ScatterND,
                    {tensor({2, 2}, {1, 2, 3, 4}), exact<std::int64_t>({1, 1}, {1}), tensor({1, 2}, {7, 8})}),
                {2, 2}, {1, 2, 7, 8});
  expect_values(run(OpKind::ScatterND, {x, exact<std::int64_t>({2, 1}, {0, 0}), tensor({2}, {5, 6})},
                    {{"reduction", std::string("min")}}),
                {4}, {1, 2, 3, 4});
  expect_values(x, {4}, {1, 2, 3, 4});  // the input is untouched
}

TEST(Indexing, TopKOrders) {
  const Tensor x = tensor({2, 4}, {3, 1, 3, 2, kNan, 0, kInf, 0});
  const std::vector<Tensor> top = run_all(OpKind::TopK, {x, integers({3})}, {}, 2);
  expect_values(top[0], {2, 3}, {3, 3, 2, kNan, kInf, 0});
  expect_values(top[1], {2, 3}, {0, 2, 3, 0, 2, 1});
  const std::vector<Tensor> low =
      run_all(OpKind::TopK, {x, integers({4})}, {{"largest", std::int64_t{0}}}, 2);
  expect_values(low[1], {2, 4}, {1, 3, 0, 2, 1, 3, 2, 0});
  EXPECT_EQ(error_of(OpKind::TopK, {x, integers({5})}, {}, 2), ErrorCode::InvalidArgument);
  EXPECT_EQ(run_all(OpKind::TopK, {x, integers({0})}, {}, 2)[0].extents(), (Extents{2, 0}));
}

TEST(Indexing, Others) {
  expect_values(run(OpKind::OneHot, {integers({1, -1, 3}), Tensor::from_integer(3), tensor({2}, {0, 5})}),
                {3, 3}, {0, 5, 0, 0, 0, 5, 0, 0, 0});
  expect_values(run(OpKind::OneHot, {integers({1, 0}), Tensor::from_integer(2), tensor({2}, {0, 1})},
                    {{"axis", std::int64_t{0}}}),
                {2, 2}, {0, 1, 1, 0});
  expect_values(run(OpKind::NonZero, {tensor({2, 3}, {0, 1, kNan, -0.0, 0, 2})}), {2, 3}, {0, 0, 1, 1, 2, 2});
  expect_values(
      run(OpKind::Compress, {counting({2, 3}), tensor<Boolean>({3}, {1, 0, 1})}, {{"axis", std::int64_t{1}}}),
      {2, 2}, {0, 2, 3, 5});
  expect_values(run(OpKind::Compress, {counting({2, 3}), tensor<Boolean>({2}, {0, 1})}), {1}, {1});
  expect_values(run(OpKind::CumSum, {tensor({4}, {1, 2, 3, 4}), exact<std::int64_t>({}, {0})}), {4},
                {1, 3, 6, 10});
  expect_values(run(OpKind::CumSum, {tensor({4}, {1, 2, 3, 4}), exact<std::int64_t>({}, {0})},
                    {{"exclusive", std::int64_t{1}}, {"reverse", std::int64_t{1}}}),
                {4}, {9, 7, 4, 0});
  expect_values(run(OpKind::CumProd, {tensor({2, 2}, {1, 2, 3, 4}), exact<std::int64_t>({}, {0})}), {2, 2},
                {1, 2, 3, 8});
  expect_values(run(OpKind::ReverseSequence, {counting({2, 3}), integers({2, 3})},
                    {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}}),
                {2, 3}, {1, 0, 2, 5, 4, 3});
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    for (const bool upper : {false, true}) {
      const Tensor x = counting({2, 3, 4});
      std::vector<double> want;
      for (std::int64_t i = 0; i < 24; ++i) {
        const double distance = static_cast<double>(i % 4 - i / 4 % 3) - static_cast<double>(k);
        want.push_back((upper ? distance >= 0 : distance <= 0) ? static_cast<double>(i) : 0);
      }
      expect_values(run(OpKind::Trilu, {x, Tensor::from_integer(k)}, {{"upper", std::int64_t{upper}}}),
                    {2, 3, 4}, want);
    }
  }
}

TEST(Indexing, NonMaxSuppressionKeepsTheBest) {
  const Tensor boxes = tensor({1, 4, 4}, {0, 0, 1, 1, 0, 0.05, 1, 1.05, 0, 10, 1, 11, 5, 5, 5, 5});
  const Tensor scores = tensor({1, 1, 4}, {0.9, 0.95, 0.9, 0.1});
  const auto chosen = [&](std::int64_t most, double overlap, double threshold) {
    return run(OpKind::NonMaxSuppression,
               {boxes, scores, Tensor::from_integer(most), tensor({}, {overlap}), tensor({}, {threshold})});
  };
  expect_values(chosen(10, 0.5, 0), {3, 3}, {0, 0, 1, 0, 0, 2, 0, 0, 3});
  expect_values(chosen(10, 0.5, 0.5), {2, 3}, {0, 0, 1, 0, 0, 2});
  expect_values(chosen(1, 1, 0), {1, 3}, {0, 0, 1});
  EXPECT_EQ(chosen(0, 0.5, 0).extents(), (Extents{0, 3}));
}

TEST(Makers, RangesAndShapes) {
  EXPECT_EQ(run(OpKind::Range, {Tensor::from_integer(10), Tensor::from_integer(4), Tensor::from_integer(-3)}),
            integers({10, 7}));
  EXPECT_EQ(run(OpKind::Range, {Tensor::from_integer(1), Tensor::from_integer(1), Tensor::from_integer(1)})
                .extents(),
            (Extents{0}));
  expect_values(run(OpKind::Range, {tensor({}, {0}), tensor({}, {1}), tensor({}, {0.25})}), {4},
                {0, 0.25, 0.5, 0.75});
  EXPECT_EQ(run(OpKind::Shape, {counting({2, 3, 5})}, {{"start", std::int64_t{-2}}}), integers({3, 5}));
  EXPECT_EQ(run(OpKind::Shape, {counting({2, 3, 5})}, {{"start", std::int64_t{2}}, {"end", std::int64_t{1}}})
                .extents(),
            (Extents{0}));
  EXPECT_EQ(run(OpKind::Size, {counting({2, 3})}), Tensor::from_integer(6));
  expect_values(run(OpKind::ConstantOfShape, {integers({2, 1})}, {{"value", tensor({1}, {4})}}), {2, 1},
                {4, 4});
  expect_values(run(OpKind::EyeLike, {counting({2, 3})}, {{"k", std::int64_t{1}}}), {2, 3},
                {0, 1, 0, 0, 0, 1});
}

}  // namespace
}  // namespace kiln::reference
