// Shapes of signals, images, algebra, losses and random numbers: symbolic, with unknown ranks, and
// impossible.
#include <utility>

#include <gtest/gtest.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

Attribute words(const char* value) { return std::string(value); }
Attribute type(DType dtype) { return static_cast<std::int64_t>(dtype); }

class InferNumeric : public ::testing::Test {
 protected:
  ValueId input(std::optional<Shape> shape, DType dtype = DType::F32) {
    return add_input(graph, dtype, std::move(shape));
  }
  ValueId unknown(DType dtype = DType::F32) { return input(std::nullopt, dtype); }
  std::string shape(OpKind op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return shape_text(graph, graph.add(op, std::move(inputs), std::move(attributes)));
  }
  std::string error(OpKind op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    return error_of([&] { graph.add(op, std::move(inputs), std::move(attributes)); });
  }
  // Rank of the result, or -1.
  int rank(OpKind op, std::vector<ValueId> inputs, Attributes attributes = {}) {
    const auto& found = graph.value(graph.add(op, std::move(inputs), std::move(attributes))).shape;
    return found ? static_cast<int>(found->size()) : -1;
  }

  Graph graph;
  Dim n = symbol(graph, "n"), s = symbol(graph, "s");
};

TEST_F(InferNumeric, Transforms) {
  const ValueId real = input(Shape{n, s, 1}), complex = input(Shape{n, s, 2});
  EXPECT_EQ(shape(OpKind::DFT, {real}), "[n, s, 2]");
  EXPECT_EQ(shape(OpKind::DFT, {real}, {{"onesided", number(1)}}), "[n, floordiv(s, 2) + 1, 2]");
  EXPECT_EQ(shape(OpKind::DFT, {complex}, {{"onesided", number(1)}, {"inverse", number(1)}}),
            "[n, 2*s - 2, 1]");
  EXPECT_EQ(shape(OpKind::DFT, {real, scalar(graph, 10), scalar(graph, 0)}), "[10, s, 2]");
  EXPECT_EQ(rank(OpKind::DFT, {real, {}, input(Shape{}, DType::I64)}), 3);
  EXPECT_EQ(rank(OpKind::DFT, {unknown()}), -1);
  EXPECT_NE(error(OpKind::DFT, {real, scalar(graph, 0)}).find("dft_length is 0"), std::string::npos);
  EXPECT_NE(error(OpKind::DFT, {real, {}, scalar(graph, -1)}).find("axis is the last"), std::string::npos);
  EXPECT_EQ(shape(OpKind::STFT, {real, scalar(graph, 4), input(Shape{16})}),
            "[n, max(floordiv(s, 4), 3) - 3, 9, 2]");
  EXPECT_EQ(rank(OpKind::STFT, {unknown(), scalar(graph, 4), unknown()}), 4);
  EXPECT_EQ(shape(OpKind::MelWeightMatrix,
                  {scalar(graph, 8), scalar(graph, 17), scalar(graph, 16000), floats(graph, {0}),
                   floats(graph, {1})},
                  {{"dtype", type(DType::F32)}}),
            "[9, 8]");
}

TEST_F(InferNumeric, Images) {
  const ValueId x = input(Shape{n, 3, s, 7}), rois = input(Shape{s, 4});
  EXPECT_EQ(shape(OpKind::AffineGrid, {input(Shape{n, 2, 3}), integers(graph, {4, 1, 5, 6})}),
            "[4, 5, 6, 2]");
  EXPECT_EQ(rank(OpKind::AffineGrid, {input(Shape{n, 3, 4}), unknown(DType::I64)}), 5);
  EXPECT_EQ(rank(OpKind::AffineGrid, {unknown(), unknown(DType::I64)}), -1);
  EXPECT_EQ(shape(OpKind::GridSample, {x, input(Shape{n, 8, s, 2})}), "[n, 3, 8, s]");
  EXPECT_EQ(rank(OpKind::GridSample, {unknown(), input(Shape{n, 8, 9, 10, 3})}), 5);
  EXPECT_EQ(rank(OpKind::GridSample, {unknown(), unknown()}), -1);
  EXPECT_NE(error(OpKind::GridSample, {x, input(Shape{n, 8, 9, 3})}).find("coordinates"), std::string::npos);
  EXPECT_NE(
      error(OpKind::GridSample, {x, input(Shape{n, 8, 9, 2})}, {{"mode", words("bicubic")}}).find("mode"),
      std::string::npos);
  const ValueId images = input(Shape{s}, DType::I64);
  EXPECT_EQ(shape(OpKind::RoiAlign, {x, rois, images}, {{"output_height", number(2)}}), "[s, 3, 2, 1]");
  EXPECT_EQ(rank(OpKind::RoiAlign, {unknown(), unknown(), unknown(DType::I64)}), 4);
  EXPECT_EQ(shape(OpKind::MaxRoiPool, {x, input(Shape{s, 5})}, {{"pooled_shape", list({2, 3})}}),
            "[s, 3, 2, 3]");
  EXPECT_NE(
      error(OpKind::MaxRoiPool, {x, input(Shape{s, 5})}, {{"pooled_shape", list({2, 0})}}).find("pooled"),
      std::string::npos);
  EXPECT_EQ(shape(OpKind::CenterCropPad, {x, integers(graph, {4, 5})}, {{"axes", list({0, -1})}}),
            "[4, 3, s, 5]");
  EXPECT_EQ(rank(OpKind::CenterCropPad, {unknown(), integers(graph, {4, 5})}), -1);
  EXPECT_NE(
      error(OpKind::CenterCropPad, {x, integers(graph, {4, 5})}, {{"axes", list({1, -3})}}).find("twice"),
      std::string::npos);
}

TEST_F(InferNumeric, WindowsPutBack) {
  const ValueId x = input(Shape{n, 3, s}), indices = input(Shape{n, 3, s}, DType::I64);
  const Attributes pool = {{"kernel_shape", list({3})}, {"strides", list({2})}, {"pads", list({1, 0})}};
  EXPECT_EQ(shape(OpKind::MaxUnpool, {x, indices}, pool), "[n, 3, 2*s]");
  EXPECT_EQ(shape(OpKind::MaxUnpool, {x, indices, integers(graph, {2, 3, 9})}, pool), "[2, 3, 9]");
  EXPECT_EQ(rank(OpKind::MaxUnpool, {unknown(), unknown(DType::I64)}, pool), 3);
  EXPECT_EQ(shape(OpKind::Col2Im, {input(Shape{n, 12, s}), integers(graph, {5, 6}), integers(graph, {2, 3})}),
            "[n, 2, 5, 6]");
  EXPECT_EQ(rank(OpKind::Col2Im, {unknown(), unknown(DType::I64), integers(graph, {2, 3})}), 4);
  EXPECT_EQ(rank(OpKind::Col2Im, {unknown(), unknown(DType::I64), unknown(DType::I64)}), -1);
  const ValueId image = input(Shape{n, 4, s, 9}), kernel = weights(graph, {6, 2, 3, 3});
  EXPECT_EQ(shape(OpKind::DeformConv, {image, kernel, unknown()}, {{"group", number(2)}}),
            "[n, 6, s - 2, 7]");
  EXPECT_EQ(rank(OpKind::DeformConv, {unknown(), kernel, unknown()}), 4);
  EXPECT_EQ(rank(OpKind::DeformConv, {unknown(), unknown(), unknown()}), -1);
  EXPECT_NE(error(OpKind::DeformConv, {image, kernel, input(Shape{n, 17, s, 7})}, {{"group", number(2)}})
                .find("channels of the offsets"),
            std::string::npos);
  // A kernel of more axes than X has, by weights whose rank does not show it.
  const Attributes cube{{"kernel_shape", std::vector<std::int64_t>{3, 3, 3}}};
  for (const OpKind op : {OpKind::Conv, OpKind::ConvTranspose}) {
    EXPECT_NE(error(op, {image, unknown()}, cube).find("expected rank 5"), std::string::npos);
  }
  EXPECT_NE(error(OpKind::DeformConv, {image, unknown(), unknown()}, cube).find("expected rank 5"),
            std::string::npos);
}

TEST_F(InferNumeric, Einsum) {
  const auto einsum = [](const char* text) { return Attributes{{"equation", words(text)}}; };
  const ValueId a = input(Shape{n, s, 4}), b = input(Shape{4, s});
  EXPECT_EQ(shape(OpKind::Einsum, {a, b}, einsum("bij,jk->bik")), "[n, s, s]");
  EXPECT_EQ(shape(OpKind::Einsum, {a, b}, einsum("...ij,jk")), "[n, s, s]");
  EXPECT_EQ(shape(OpKind::Einsum, {a}, einsum("...->")), "[]");
  EXPECT_EQ(rank(OpKind::Einsum, {unknown(), b}, einsum("bij,jk->bik")), 3);
  EXPECT_EQ(rank(OpKind::Einsum, {unknown(), b}, einsum("...ij,jk->...ik")), -1);
  // What is unknown may widen an extent of 1.
  EXPECT_NE(shape(OpKind::Einsum, {unknown(), input(Shape{1, 5})}, einsum("ij,ij->ij")), "[1, 5]");
  EXPECT_NE(error(OpKind::Einsum, {input(Shape{2, 3}), input(Shape{2, 4})}, einsum("ij,kj->ik")), "no error");
}

TEST_F(InferNumeric, AlgebraSetsAndLosses) {
  EXPECT_EQ(shape(OpKind::Det, {input(Shape{n, s, s})}), "[n]");
  EXPECT_EQ(rank(OpKind::Det, {unknown()}), -1);
  EXPECT_NE(error(OpKind::Det, {input(Shape{n, 2, 3})}).find("sides"), std::string::npos);
  const std::vector<std::string> all(4, "y");
  const ValueId x = input(Shape{n, s});
  const std::vector<ValueId> flat = graph.node(graph.add_node(OpKind::Unique, {x}, {}, "flat", all)).outputs;
  EXPECT_EQ(graph.value(flat[0]).shape->at(0), graph.value(flat[3]).shape->at(0));
  EXPECT_EQ(shape_text(graph, flat[2]), "[n*s]");
  const std::vector<ValueId> rows =
      graph.node(graph.add_node(OpKind::Unique, {x}, {{"axis", number(-1)}}, "rows", all)).outputs;
  EXPECT_EQ(graph.value(rows[0]).shape->at(0), n);
  EXPECT_EQ(shape_text(graph, rows[2]), "[s]");
  EXPECT_EQ(rank(OpKind::Unique, {unknown()}), 1);
  EXPECT_EQ(rank(OpKind::Unique, {unknown()}, {{"axis", number(0)}}), -1);
  const ValueId scores = input(Shape{n, 5, s}), target = input(Shape{n, s}, DType::I64);
  EXPECT_EQ(shape(OpKind::NegativeLogLikelihoodLoss, {scores, target}), "[]");
  EXPECT_EQ(shape(OpKind::NegativeLogLikelihoodLoss, {unknown(), target}, {{"reduction", words("none")}}),
            "[n, s]");
  EXPECT_EQ(
      shape(OpKind::NegativeLogLikelihoodLoss, {scores, unknown(DType::I64)}, {{"reduction", words("none")}}),
      "[n, s]");
  EXPECT_NE(error(OpKind::NegativeLogLikelihoodLoss, {scores, input(Shape{n}, DType::I64)}), "no error");
  EXPECT_EQ(shape(OpKind::TensorScatter, {input(Shape{n, 8, 4}), input(Shape{n, s, 4})}), "[n, 8, 4]");
  EXPECT_EQ(rank(OpKind::TensorScatter, {unknown(), unknown()}), -1);
  EXPECT_EQ(shape(OpKind::BitCast, {x}, {{"to", type(DType::U32)}}), "[n, s]");
  EXPECT_NE(error(OpKind::BitCast, {x}, {{"to", type(DType::F16)}}).find("as wide"), std::string::npos);
}

TEST_F(InferNumeric, RandomNumbers) {
  const ValueId x = input(Shape{n, s});
  const Attributes attributes = {{"dtype", type(DType::F16)}};
  EXPECT_EQ(shape(OpKind::RandomUniform, {graph.add(OpKind::Shape, {x})}, attributes), "[n, s]");
  EXPECT_EQ(rank(OpKind::RandomNormal, {input(Shape{3}, DType::I64)}, attributes), 3);
  EXPECT_EQ(rank(OpKind::RandomNormal, {graph.add(OpKind::Shape, {unknown()})}, attributes), -1);
  EXPECT_NE(error(OpKind::RandomNormal, {integers(graph, {-1})}, attributes), "no error");
  EXPECT_EQ(shape(OpKind::Multinomial, {x}, {{"dtype", type(DType::I64)}, {"sample_size", number(4)}}),
            "[n, 4]");
}

}  // namespace
}  // namespace kiln::graph
