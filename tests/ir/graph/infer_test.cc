#include <random>

#include <gtest/gtest.h>

#include "tests/ir/graph/graph_builder.h"

namespace kiln::graph {
namespace {

TEST(Infer, BroadcastsSymbolically) {
  Graph graph;
  const Dim s = symbol(graph, "s"), t = symbol(graph, "t");
  const ValueId a = add_input(graph, DType::F32, Shape{s, 1, 4}),
                b = add_input(graph, DType::F32, Shape{t, 1});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Add, {a, b})), "[s, t, 4]");
  const ValueId c = add_input(graph, DType::F32, Shape{t, 3, 4});
  EXPECT_TRUE(graph.guards.empty());
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Mul, {a, c})), "[broadcast(s, t), 3, 4]");
  EXPECT_TRUE(graph.guards.empty());
  const ValueId d = add_input(graph, DType::F32, Shape{5, 1, s});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Sub, {a, d})), "[5, 1, 4]");
  ASSERT_EQ(graph.guards.size(), 2U);  // s is 1 or 5, and 1 or 4
  for (const std::int64_t extent : {1, 4, 5}) {
    bool holds = true;
    for (const Guard& guard : graph.guards) {
      try {
        const std::vector<std::int64_t> bindings = {extent, 1};
        holds = holds && guard.left.evaluate(bindings) == guard.right.evaluate(bindings);
      } catch (const Error&) {
        holds = false;
      }
    }
    EXPECT_EQ(holds, extent == 1);
  }
  const std::string error =
      error_of([&] { graph.add(OpKind::Add, {c, add_input(graph, DType::F32, Shape{2, 4})}); });
  EXPECT_NE(error.find("extent 2, expected 3 or 1"), std::string::npos) << error;
  EXPECT_NE(error.find("op=Add"), std::string::npos) << error;
}

TEST(Infer, UnknownRanksStayUnknownWhereTheyMust) {
  Graph graph;
  const ValueId x = add_input(graph, DType::F32, std::nullopt), w = weights(graph, {8, 3, 3, 3});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Relu, {x})), "?");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Add, {x, w})), "?");
  EXPECT_EQ(graph.value(graph.add(OpKind::Conv, {x, w})).shape->size(), 4U);
  EXPECT_EQ(graph.value(graph.add(OpKind::Shape, {x})).shape->size(), 1U);
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Size, {x})), "[]");
  EXPECT_EQ(graph.value(graph.add(OpKind::Flatten, {x})).shape->size(), 2U);
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Reshape, {x, integers(graph, {4, 5})})), "[4, 5]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::ReduceSum, {x}, {{"keepdims", number(0)}})), "[]");
  const ValueId permuted = graph.add(OpKind::Transpose, {x}, {{"perm", list({1, 0})}});
  EXPECT_EQ(graph.value(permuted).shape->size(), 2U);
  // Every size that only running can tell is a Symbol with its source.
  for (const Symbol& made : graph.symbols) EXPECT_EQ(made.source.kind, SymbolSource::Kind::NodeResult);
}

TEST(Infer, MatMul) {
  Graph graph;
  const Dim b = symbol(graph, "b"), s = symbol(graph, "s"), k = symbol(graph, "k");
  const ValueId a = add_input(graph, DType::F32, Shape{b, 12, s, 64});
  const ValueId t = add_input(graph, DType::F32, Shape{b, 12, 64, s});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::MatMul, {a, t})), "[b, 12, s, s]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::MatMul, {a, weights(graph, {64, 7})})), "[b, 12, s, 7]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::MatMul, {a, weights(graph, {64})})), "[b, 12, s]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::MatMul, {weights(graph, {64}), weights(graph, {64})})), "[]");
  EXPECT_TRUE(graph.guards.empty());
  graph.add(OpKind::MatMul, {add_input(graph, DType::F32, Shape{s, k}), weights(graph, {64, 7})});
  ASSERT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(graph.guards[0].left, k);
  EXPECT_EQ(graph.guards[0].right, Dim(64));
  const std::string error = error_of([&] { graph.add(OpKind::MatMul, {a, weights(graph, {65, 7})}); });
  EXPECT_NE(error.find("inner extents of A and B: got 64 and 65"), std::string::npos) << error;
}

TEST(Infer, Gemm) {
  Graph graph;
  const Dim b = symbol(graph, "b");
  const ValueId a = add_input(graph, DType::F32, Shape{b, 4}), c = weights(graph, {3});
  const ValueId y = graph.add(OpKind::Gemm, {a, weights(graph, {3, 4}), c}, {{"transB", number(1)}});
  EXPECT_EQ(shape_text(graph, y), "[b, 3]");
  const ValueId z = graph.add(OpKind::Gemm, {a, a}, {{"transA", number(1)}});
  EXPECT_EQ(shape_text(graph, z), "[4, 4]");
  EXPECT_NE(
      error_of([&] { graph.add(OpKind::Gemm, {a, weights(graph, {4, 2}), c}); }).find("C broadcast to Y"),
      std::string::npos);
}

TEST(Infer, ConvCompletesItsAttributes) {
  Graph graph;
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 6, h, 31}), w = weights(graph, {8, 3, 3, 5});
  const ValueId y = graph.add(
      OpKind::Conv, {x, w}, {{"group", number(2)}, {"strides", list({2, 1})}, {"pads", list({1, 2, 1, 2})}});
  EXPECT_EQ(shape_text(graph, y), "[n, 8, floordiv(h + 1, 2), 31]");
  const Node& node = graph.node(graph.value(y).producer);
  EXPECT_EQ(node.attributes.at("kernel_shape"), list({3, 5}));
  EXPECT_EQ(node.attributes.at("dilations"), list({1, 1}));

  // SAME is explicit where it cannot depend on the extent.
  const Attributes same = {
      {"group", number(2)}, {"auto_pad", std::string("SAME_UPPER")}, {"dilations", list({2, 1})}};
  const ValueId z = graph.add(OpKind::Conv, {x, w}, same);
  EXPECT_EQ(shape_text(graph, z), "[n, 8, h, 31]");
  EXPECT_EQ(graph.node(graph.value(z).producer).attributes.at("pads"), list({2, 2, 2, 2}));
  EXPECT_EQ(text(graph.node(graph.value(z).producer), "auto_pad"), "NOTSET");
  Attributes strided = same;
  strided["strides"] = list({2, 2});
  const ValueId u = graph.add(OpKind::Conv, {x, w}, strided);
  EXPECT_EQ(shape_text(graph, u), "[n, 8, floordiv(h + 1, 2), 16]");
  EXPECT_EQ(text(graph.node(graph.value(u).producer), "auto_pad"), "SAME_UPPER");
  EXPECT_FALSE(has(graph.node(graph.value(u).producer), "pads"));

  EXPECT_NE(error_of([&] { graph.add(OpKind::Conv, {x, w}); }).find("input channels: got 6 and 3"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              graph.add(OpKind::Conv, {x, weights(graph, {8, 6, 3, 64})}, {{"pads", list({0, 0, 0, 0})}});
            }).find("positions of a window of 64 elements on axis 3"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              graph.add(OpKind::Conv, {x, w}, {{"group", number(2)}, {"strides", list({0, 1})}});
            }).find("strides"),
            std::string::npos);
}

TEST(Infer, ConvTranspose) {
  Graph graph;
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 4, h, 7}), w = weights(graph, {4, 3, 3, 3});
  const ValueId y =
      graph.add(OpKind::ConvTranspose, {x, w},
                {{"strides", list({2, 2})}, {"pads", list({1, 1, 1, 1})}, {"output_padding", list({1, 1})}});
  EXPECT_EQ(shape_text(graph, y), "[n, 3, 2*h, 14]");
  const ValueId z = graph.add(OpKind::ConvTranspose, {x, w},
                              {{"strides", list({2, 2})}, {"auto_pad", std::string("SAME_UPPER")}});
  EXPECT_EQ(shape_text(graph, z), "[n, 3, 2*h, 14]");
  EXPECT_EQ(graph.node(graph.value(z).producer).attributes.at("pads"), list({0, 0, 1, 1}));
  const ValueId known = add_input(graph, DType::F32, Shape{1, 4, 3, 3});
  const ValueId u = graph.add(OpKind::ConvTranspose, {known, w},
                              {{"strides", list({3, 2})}, {"output_shape", list({10, 8})}});
  EXPECT_EQ(shape_text(graph, u), "[1, 3, 10, 8]");
  // (3 - 1) * 3 + 3 = 9 is one short of 10, and 7 one short of 8: what pads cannot give, output_padding does.
  EXPECT_EQ(graph.node(graph.value(u).producer).attributes.at("output_padding"), list({1, 1}));
}

TEST(Infer, Pooling) {
  Graph graph;
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 6, h, 32});
  const Attributes pool = {
      {"kernel_shape", list({3, 3})}, {"strides", list({2, 2})}, {"pads", list({1, 1, 1, 1})}};
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::MaxPool, {x}, pool)), "[n, 6, floordiv(h + 1, 2), 16]");
  Attributes ceil = {{"kernel_shape", list({2, 2})}, {"strides", list({2, 3})}, {"ceil_mode", number(1)}};
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::AveragePool, {x}, ceil)), "[n, 6, floordiv(h + 1, 2), 11]");
  // The last window would start beyond the input and its padding at the front.
  const ValueId tiny = add_input(graph, DType::F32, Shape{1, 1, 2, 2});
  ceil = {{"kernel_shape", list({1, 1})}, {"strides", list({2, 2})}, {"ceil_mode", number(1)}};
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::MaxPool, {tiny}, ceil)), "[1, 1, 1, 1]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::GlobalAveragePool, {x})), "[n, 6, 1, 1]");
  const std::vector<std::string> both = {"y", "indices"};
  const Node& node = graph.node(graph.add_node(OpKind::MaxPool, {x}, pool, "pool", both));
  EXPECT_EQ(graph.value(node.outputs[1]).dtype, DType::I64);
  EXPECT_EQ(graph.value(node.outputs[1]).shape, graph.value(node.outputs[0]).shape);
}

TEST(Infer, Rows) {
  Graph graph;
  const Dim n = symbol(graph, "n");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 3, 5});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::ReduceMean, {x, integers(graph, {-1})})), "[n, 3, 1]");
  EXPECT_EQ(shape_text(graph,
                       graph.add(OpKind::ReduceMax, {x, integers(graph, {0, 2})}, {{"keepdims", number(0)}})),
            "[3]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::ReduceSum, {x})), "[1, 1, 1]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::ReduceSum, {x}, {{"noop_with_empty_axes", number(1)}})),
            "[n, 3, 5]");
  const ValueId arg = graph.add(OpKind::ArgMax, {x}, {{"axis", number(-1)}, {"keepdims", number(0)}});
  EXPECT_EQ(shape_text(graph, arg), "[n, 3]");
  EXPECT_EQ(graph.value(arg).dtype, DType::I64);
  const ValueId top = graph.add(OpKind::TopK, {x, integers(graph, {2})});
  EXPECT_EQ(shape_text(graph, top), "[n, 3, 2]");
  EXPECT_NE(error_of([&] { graph.add(OpKind::TopK, {x, integers(graph, {6})}); }).find("K is 6"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              graph.add(OpKind::GroupNormalization, {x, weights(graph, {3}), weights(graph, {3})},
                        {{"num_groups", number(2)}});
            }).find("num_groups is 2"),
            std::string::npos);
}

TEST(Infer, Reshape) {
  Graph graph;
  const Dim b = symbol(graph, "b"), s = symbol(graph, "s");
  const ValueId x = add_input(graph, DType::F32, Shape{b, s, 768});
  const auto reshape = [&](std::vector<std::int64_t> shape, std::int64_t allowzero = 0) {
    return shape_text(graph, graph.add(OpKind::Reshape, {x, integers(graph, std::move(shape))},
                                       {{"allowzero", number(allowzero)}}));
  };
  EXPECT_EQ(reshape({0, 0, 12, 64}), "[b, s, 12, 64]");
  EXPECT_EQ(reshape({0, -1, 12, 64}), "[b, s, 12, 64]");
  EXPECT_EQ(reshape({-1, 768}), "[b*s, 768]");
  EXPECT_EQ(reshape({-1}), "[768*b*s]");
  EXPECT_TRUE(graph.guards.empty());
  EXPECT_EQ(reshape({2, -1}), "[2, 384*b*s]");
  EXPECT_TRUE(graph.guards.empty());
  EXPECT_EQ(reshape({1, 5, 768}), "[1, 5, 768]");
  EXPECT_EQ(graph.guards.size(), 1U);
  EXPECT_EQ(reshape({0, 7}, 1), "[0, 7]");
  EXPECT_NE(error_of([&] { reshape({-1, -1}); }).find("-1 more than once"), std::string::npos);
  EXPECT_NE(error_of([&] { reshape({-2}); }).find("negative extent"), std::string::npos);
  EXPECT_NE(error_of([&] { reshape({0, 0, 768, 0}); }).find("copies axis 3"), std::string::npos);
  const ValueId fixed = add_input(graph, DType::F32, Shape{2, 3});
  EXPECT_NE(error_of([&] {
              graph.add(OpKind::Reshape, {fixed, integers(graph, {4, -1})});
            }).find("elements before and after: got 6 and 4"),
            std::string::npos);
  const ValueId dynamic = add_input(graph, DType::I64, Shape{3});
  EXPECT_EQ(graph.value(graph.add(OpKind::Reshape, {x, dynamic})).shape->size(), 3U);
}

TEST(Infer, SlicesLikePlainIndices) {
  // Against counting the indices that the standard's rules select; they are Python's, but that going backward
  // begins at an element.
  const auto selected = [](std::int64_t extent, std::int64_t start, std::int64_t end, std::int64_t step) {
    const auto clamp = [&](std::int64_t bound, std::int64_t lowest) {
      const std::int64_t at = bound < 0 ? bound + extent : bound;
      return step > 0 ? std::clamp<std::int64_t>(at, 0, extent)
                      : std::clamp<std::int64_t>(at, std::min(lowest, extent - 1), extent - 1);
    };
    const std::int64_t last = clamp(end, -1);
    std::int64_t count = 0;
    for (std::int64_t i = clamp(start, 0); step > 0 ? i < last : i > last; i += step) ++count;
    return count;
  };
  for (const std::int64_t start : {-9, -4, -1, 0, 1, 3, 8}) {
    for (const std::int64_t end : {-9, -4, -1, 0, 2, 5, 8}) {
      for (const std::int64_t step : {-3, -1, 1, 2, 4}) {
        Graph graph;
        const ValueId x = add_input(graph, DType::F32, Shape{4, symbol(graph, "s")});
        const ValueId y = graph.add(OpKind::Slice, {x, integers(graph, {start}), integers(graph, {end}),
                                                    integers(graph, {-1}), integers(graph, {step})});
        for (std::int64_t extent = 0; extent < 12; ++extent) {
          ASSERT_EQ((*graph.value(y).shape)[1].evaluate(std::vector<std::int64_t>{extent}),
                    selected(extent, start, end, step))
              << extent << " " << start << " " << end << " " << step;
        }
      }
    }
  }
}

TEST(Infer, SlicesToTheEnd) {
  Graph graph;
  const Dim s = symbol(graph, "s"), t = symbol(graph, "t");
  const ValueId x = add_input(graph, DType::F32, Shape{s, t});
  const ValueId y =
      graph.add(OpKind::Slice, {x, integers(graph, {0, 1}), integers(graph, {INT64_MAX, INT64_MAX})});
  EXPECT_EQ(shape_text(graph, y), "[s, max(t, 1) - 1]");
  const ValueId reversed = graph.add(OpKind::Slice, {x, integers(graph, {-1}), integers(graph, {INT64_MIN}),
                                                     integers(graph, {1}), integers(graph, {-1})});
  EXPECT_EQ(shape_text(graph, reversed), "[s, t]");
  EXPECT_TRUE(graph.guards.empty());
}

TEST(Infer, MovesElements) {
  Graph graph;
  const Dim b = symbol(graph, "b"), s = symbol(graph, "s");
  const ValueId x = add_input(graph, DType::F32, Shape{b, s, 8}),
                ids = add_input(graph, DType::I64, Shape{b, s});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Gather, {weights(graph, {100, 16}), ids})), "[b, s, 16]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Gather, {x, scalar(graph, 0)}, {{"axis", number(1)}})),
            "[b, 8]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Concat, {x, x}, {{"axis", number(-2)}})), "[b, 2*s, 8]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Pad, {x, integers(graph, {0, 1, 0, 0, 2, -3})})),
            "[b, s + 3, 5]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Pad, {x, integers(graph, {1, 1}), ValueId::none(),
                                                      integers(graph, {-1})})),
            "[b, s, 10]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Tile, {x, integers(graph, {1, 2, 3})})), "[b, 2*s, 24]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::Expand, {ids, integers(graph, {3, 1, 1})})), "[3, b, s]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::OneHot, {ids, scalar(graph, 5), integers(graph, {0, 1})})),
            "[b, s, 5]");
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::GatherND, {x, integers(graph, {2})})), "[s, 8]");
  const ValueId image = add_input(graph, DType::F32, Shape{b, 12, s, 5});
  EXPECT_EQ(shape_text(graph, graph.add(OpKind::DepthToSpace, {image}, {{"blocksize", number(2)}})),
            "[b, 3, 2*s, 10]");
  const ValueId first = graph.add(OpKind::Split, {x}, {{"axis", number(2)}, {"num_outputs", number(3)}});
  const Node& split = graph.node(graph.value(first).producer);
  EXPECT_EQ(shape_text(graph, split.outputs[0]), "[b, s, 3]");
  EXPECT_EQ(shape_text(graph, split.outputs[2]), "[b, s, 2]");
}

TEST(Infer, Resize) {
  Graph graph;
  const Dim n = symbol(graph, "n"), h = symbol(graph, "h");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 3, h, 10});
  const auto scaled = [&](float y, float z) {
    return shape_text(graph, graph.add(OpKind::Resize, {x, ValueId::none(), floats(graph, {1, 1, y, z})}));
  };
  EXPECT_EQ(scaled(2, 2), "[n, 3, 2*h, 20]");
  EXPECT_EQ(scaled(0.5F, 0.25F), "[n, 3, floordiv(h, 2), 2]");
  EXPECT_EQ(scaled(2.0F / 3, 0.7F), "[n, 3, floordiv(2*h, 3), 7]");
  const ValueId sized =
      graph.add(OpKind::Resize, {x, ValueId::none(), ValueId::none(), integers(graph, {7, 8})},
                {{"axes", list({-2, -1})}});
  EXPECT_EQ(shape_text(graph, sized), "[n, 3, 7, 8]");
  EXPECT_NE(error_of([&] { graph.add(OpKind::Resize, {x}); }).find("either scales or sizes"),
            std::string::npos);
}

TEST(Infer, DataDependentSizesAreSymbols) {
  Graph graph;
  const Dim n = symbol(graph, "n");
  const ValueId x = add_input(graph, DType::F32, Shape{n, 4});
  const ValueId y = graph.add(OpKind::NonZero, {x});
  ASSERT_EQ(graph.value(y).shape->size(), 2U);
  EXPECT_EQ((*graph.value(y).shape)[0], Dim(2));
  const std::optional<SymbolId> made = (*graph.value(y).shape)[1].as_symbol();
  ASSERT_TRUE(made);
  EXPECT_EQ(graph.symbols[made->index].source.kind, SymbolSource::Kind::NodeResult);
  EXPECT_EQ(graph.symbols[made->index].source.value, y);
  EXPECT_EQ(graph.symbols[made->index].source.index, 1);
  const ValueId boxes = add_input(graph, DType::F32, Shape{1, n, 4}),
                scores = add_input(graph, DType::F32, Shape{1, 2, n});
  const ValueId kept = graph.add(OpKind::NonMaxSuppression, {boxes, scores});
  EXPECT_EQ((*graph.value(kept).shape)[1], Dim(3));
}

// The same node inferred with run-time extents, bound afterwards, and with constant ones.
struct Case {
  std::string name;
  std::size_t symbols;
  std::function<ValueId(Graph&, const std::vector<Dim>&)> build;
};

TEST(Infer, SymbolicAgreesWithConstant) {
  const auto image = [](Graph& graph, const std::vector<Dim>& d) {
    return add_input(graph, DType::F32, Shape{d[0], 4, d[1], d[2]});
  };
  const auto window = [](const std::vector<std::int64_t>& kernel, const std::vector<std::int64_t>& strides,
                         std::int64_t dilation) {
    return Attributes{{"kernel_shape", list(kernel)},
                      {"strides", list(strides)},
                      {"dilations", list({dilation, dilation})},
                      {"pads", list({2, 1, 2, 3})}};
  };
  std::vector<Case> cases;
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t ceil : {0, 1}) {
      cases.push_back({"pool", 3, [=](Graph& graph, const std::vector<Dim>& d) {
                         Attributes attributes = window({3, 2}, {stride, stride + 1}, 2);
                         attributes["ceil_mode"] = number(ceil);
                         return graph.add(OpKind::MaxPool, {image(graph, d)}, attributes);
                       }});
    }
    for (const char* mode : {"SAME_UPPER", "SAME_LOWER", "VALID"}) {
      cases.push_back({mode, 3, [=](Graph& graph, const std::vector<Dim>& d) {
                         return graph.add(OpKind::Conv, {image(graph, d), weights(graph, {8, 4, 3, 2})},
                                          {{"auto_pad", std::string(mode)}, {"strides", list({stride, 2})}});
                       }});
    }
    cases.push_back({"transpose", 3, [=](Graph& graph, const std::vector<Dim>& d) {
                       return graph.add(OpKind::ConvTranspose,
                                        {image(graph, d), weights(graph, {4, 2, 3, 3})},
                                        {{"strides", list({stride, stride})}});
                     }});
  }
  cases.push_back({"split", 1, [](Graph& graph, const std::vector<Dim>& d) {
                     return graph.add(OpKind::Split, {add_input(graph, DType::F32, Shape{d[0]})},
                                      {{"num_outputs", number(3)}});
                   }});
  cases.push_back({"attention", 2, [](Graph& graph, const std::vector<Dim>& d) {
                     const ValueId x = add_input(graph, DType::F32, Shape{d[0], d[1], 32});
                     const ValueId shape = graph.add(OpKind::Shape, {x});
                     const ValueId rows = graph.add(OpKind::Gather, {shape, integers(graph, {1})});
                     const ValueId wanted =
                         graph.add(OpKind::Concat, {integers(graph, {-1}), rows, integers(graph, {4, 8})},
                                   {{"axis", number(0)}});
                     const ValueId heads = graph.add(OpKind::Reshape, {x, wanted});
                     return graph.add(OpKind::Transpose, {heads}, {{"perm", list({0, 2, 1, 3})}});
                   }});
  cases.push_back({"range", 2, [](Graph& graph, const std::vector<Dim>& d) {
                     const ValueId size =
                         graph.add(OpKind::Size, {add_input(graph, DType::F32, Shape{d[0], d[1]})});
                     return graph.add(OpKind::Range, {scalar(graph, 3), size, scalar(graph, 4)});
                   }});
  std::mt19937 random(7);
  for (const Case& item : cases) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      std::vector<std::int64_t> extents;
      for (std::size_t i = 0; i < item.symbols; ++i)
        extents.push_back(5 + static_cast<std::int64_t>(random() % 30));
      Graph constant, symbolic;
      std::vector<Dim> dims;
      for (std::size_t i = 0; i < item.symbols; ++i)
        dims.push_back(symbol(symbolic, std::string(1, static_cast<char>('a' + i))));
      const ValueId want = item.build(constant, std::vector<Dim>(extents.begin(), extents.end()));
      const ValueId got = item.build(symbolic, dims);
      const Shape &want_shape = *constant.value(want).shape, &got_shape = *symbolic.value(got).shape;
      ASSERT_EQ(got_shape.size(), want_shape.size()) << item.name;
      for (std::size_t i = 0; i < want_shape.size(); ++i) {
        ASSERT_EQ(got_shape[i].evaluate(extents), want_shape[i].constant())
            << item.name << shape_text(symbolic, got);
      }
      for (const Guard& guard : symbolic.guards) {
        const std::int64_t left = guard.left.evaluate(extents), right = guard.right.evaluate(extents);
        EXPECT_TRUE(guard.relation == Guard::Relation::Equal ? left == right : left >= right)
            << item.name << ": " << left << " and " << right;
      }
    }
  }
}

}  // namespace
}  // namespace kiln::graph
