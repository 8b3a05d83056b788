// Shape arithmetic evaluated symbolically.
#include <gtest/gtest.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

class Elements : public testing::Test {
 protected:
  ValueId one_extent(std::int64_t axis) { return graph.add(OpKind::Gather, {shape, scalar(graph, axis)}); }
  ValueId extent_list(std::int64_t axis) {
    return graph.add(OpKind::Unsqueeze, {one_extent(axis), integers(graph, {0})});
  }
  std::string known(ValueId id) { return elements_text(graph, id); }

  Graph graph;
  Dim b = symbol(graph, "b"), s = symbol(graph, "s");
  ValueId x = add_input(graph, DType::F32, Shape{b, s, 768});
  ValueId shape = graph.add(OpKind::Shape, {x});
};

TEST_F(Elements, ShapeAndSize) {
  EXPECT_EQ(known(shape), "[b, s, 768]");
  EXPECT_EQ(known(graph.add(OpKind::Shape, {x}, {{"start", number(-2)}, {"end", number(-1)}})), "[s]");
  EXPECT_EQ(known(graph.add(OpKind::Size, {x})), "[768*b*s]");
}

TEST_F(Elements, ChainsEndInReshape) {
  const ValueId wanted = graph.add(
      OpKind::Concat, {extent_list(0), extent_list(1), integers(graph, {12, 64})}, {{"axis", number(0)}});
  EXPECT_EQ(known(wanted), "[b, s, 12, 64]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Reshape, {x, wanted})), "[b, s, 12, 64]");
  EXPECT_TRUE(graph.guards.empty());
}

TEST_F(Elements, Arithmetic) {
  const ValueId extent = one_extent(1);
  EXPECT_EQ(known(graph.add(OpKind::Add, {extent, scalar(graph, 3)})), "[s + 3]");
  EXPECT_EQ(known(graph.add(OpKind::Sub, {extent, scalar(graph, 3)})), "[s - 3]");
  EXPECT_EQ(known(graph.add(OpKind::Mul, {shape, integers(graph, {2})})), "[2*b, 2*s, 1536]");
  EXPECT_EQ(known(graph.add(OpKind::Div, {extent, scalar(graph, 2)})), "[floordiv(s, 2)]");
  EXPECT_EQ(known(graph.add(OpKind::Mod, {extent, scalar(graph, 2)})), "[mod(s, 2)]");
  EXPECT_EQ(known(graph.add(OpKind::Min, {extent, scalar(graph, 512)})), "[min(s, 512)]");
  EXPECT_EQ(known(graph.add(OpKind::Max, {extent, scalar(graph, 0)})), "[s]");
  EXPECT_EQ(known(graph.add(OpKind::Neg, {extent})), "[-s]");
  EXPECT_EQ(known(graph.add(OpKind::ReduceProd, {shape}, {{"keepdims", number(0)}})), "[768*b*s]");
  // Division rounds toward zero, floordiv down: unknown signs stay unknown.
  EXPECT_EQ(known(graph.add(OpKind::Div, {scalar(graph, -7), scalar(graph, 2)})), "[-3]");
  EXPECT_EQ(known(graph.add(OpKind::Mod, {scalar(graph, -7), scalar(graph, 2)})), "[1]");
  const ValueId difference = graph.add(OpKind::Sub, {extent, scalar(graph, 3)});
  EXPECT_EQ(known(graph.add(OpKind::Div, {difference, scalar(graph, 2)})), "?");
  EXPECT_EQ(known(graph.add(OpKind::Div, {extent, scalar(graph, 0)})), "?");
  // Sums that no i64 holds are not known, and no error either.
  EXPECT_EQ(known(graph.add(OpKind::Add, {scalar(graph, INT64_MAX), scalar(graph, 1)})), "?");
}

TEST_F(Elements, FloatsThatAreWholeNumbers) {
  const ValueId extent = graph.add(OpKind::Cast,
                                   {
                                       one_extent(1),
                                   },
                                   {{"to", number(static_cast<std::int64_t>(DType::F32))}});
  const ValueId doubled = graph.add(OpKind::Mul, {extent, floats(graph, {2})});
  const ValueId back = graph.add(OpKind::Cast, {graph.add(OpKind::Floor, {doubled})},
                                 {{"to", number(static_cast<std::int64_t>(DType::I64))}});
  EXPECT_EQ(known(back), "[2*s]");
  EXPECT_EQ(known(graph.add(OpKind::Mul, {extent, floats(graph, {0.5F})})), "?");
  EXPECT_EQ(known(graph.add(OpKind::Div, {extent, floats(graph, {2})})), "?");
  EXPECT_EQ(known(graph.add(OpKind::Div, {doubled, floats(graph, {2})})), "[s]");
}

TEST_F(Elements, ComparisonsThatCanBeProved) {
  const ValueId extent = one_extent(1);
  EXPECT_EQ(known(graph.add(OpKind::Equal, {shape, integers(graph, {-1})})), "[0, 0, 0]");
  EXPECT_EQ(known(graph.add(OpKind::Equal, {extent, extent})), "[1]");
  EXPECT_EQ(known(graph.add(OpKind::Equal, {extent, scalar(graph, 5)})), "?");
  EXPECT_EQ(known(graph.add(OpKind::Less, {scalar(graph, -1), extent})), "[1]");
  EXPECT_EQ(known(graph.add(OpKind::GreaterOrEqual, {scalar(graph, -1), extent})), "[0]");
  EXPECT_EQ(known(graph.add(OpKind::Less, {extent, scalar(graph, 5)})), "?");
  // The idiom of exported expand(): -1 means "as it is".
  const ValueId ones = graph.add(OpKind::ConstantOfShape, {integers(graph, {3})},
                                 {{"value", Tensor::from_integers(std::vector<std::int64_t>{1})}});
  const ValueId wanted = integers(graph, {-1, 5, 1});
  const ValueId chosen =
      graph.add(OpKind::Where, {graph.add(OpKind::Equal, {wanted, integers(graph, {-1})}), ones, wanted});
  EXPECT_EQ(known(chosen), "[1, 5, 1]");
}

TEST_F(Elements, MovesThem) {
  const ValueId reversed =
      graph.add(OpKind::Slice, {shape, integers(graph, {-1}), integers(graph, {INT64_MIN}),
                                integers(graph, {0}), integers(graph, {-1})});
  EXPECT_EQ(known(reversed), "[768, s, b]");
  EXPECT_EQ(known(graph.add(OpKind::Slice, {shape, integers(graph, {1}), integers(graph, {INT64_MAX})})),
            "[s, 768]");
  EXPECT_EQ(known(graph.add(OpKind::Slice, {shape, integers(graph, {-100}), integers(graph, {-1})})),
            "[b, s]");
  EXPECT_EQ(known(graph.add(OpKind::Gather, {shape, integers(graph, {-1, 0})})), "[768, b]");
  EXPECT_NE(error_of([&] {
              graph.add(OpKind::Gather, {shape, integers(graph, {3})});
            }).find("index 3 is out of range"),
            std::string::npos);
  const ValueId square = graph.add(
      OpKind::Reshape, {graph.add(OpKind::Concat, {shape, integers(graph, {7})}, {{"axis", number(0)}}),
                        integers(graph, {-1, 2})});
  EXPECT_EQ(shape_text(graph, square), "[2, 2]");
  EXPECT_EQ(known(graph.add(OpKind::Transpose, {square})), "[b, 768, s, 7]");
  EXPECT_EQ(known(graph.add(OpKind::Tile, {square, integers(graph, {1, 2})})),
            "[b, s, b, s, 768, 7, 768, 7]");
  EXPECT_EQ(known(graph.add(OpKind::Expand, {extent_list(0), integers(graph, {2})})), "[b, b]");
  EXPECT_EQ(known(graph.add(OpKind::Range, {scalar(graph, 1), scalar(graph, 8), scalar(graph, 3)})),
            "[1, 4, 7]");
  const ValueId first = graph.add(OpKind::Split, {shape}, {{"num_outputs", number(2)}});
  EXPECT_EQ(known(graph.node(graph.value(first).producer).outputs[1]), "[768]");
}

TEST_F(Elements, SymbolicSizesOfMakers) {
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::ConstantOfShape, {shape})), "[b, s, 768]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Range, {scalar(graph, 0), one_extent(1), scalar(graph, 1)})),
            "[s]");
  const ValueId y = graph.add(OpKind::Expand, {integers(graph, {1}), shape});
  EXPECT_EQ(shape_text(graph, y), "[b, s, 768]");
}

}  // namespace
}  // namespace kiln::graph
