// Operators that are said with simpler ones, as regions_in_interpreter_test.cc runs them.
#include "tests/runtime/region_check.h"

namespace kiln {
namespace {

using namespace kiln::testing;
using graph::Attributes;
using graph::Graph;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

ValueId real(Graph& g, float value) {
  return g.add_constant(Tensor::from<float>(DType::F32, {}, std::array{value}));
}

// Few distinct numbers, so many ties.
ValueId with_ties(Graph& g, ValueId x) { return g.add(OpKind::Round, {g.add(OpKind::Mul, {x, real(g, 3)})}); }

// NaN where x is below `least`.
ValueId with_nan(Graph& g, ValueId x, float least) {
  const ValueId root = g.add(OpKind::Sqrt, {g.add(OpKind::Sub, {x, real(g, least)})});
  return g.add(OpKind::Add, {with_ties(g, x), g.add(OpKind::Mul, {root, real(g, 0)})});
}

std::vector<ValueId> positions(Graph& g, ValueId x, OpKind op) {
  std::vector<ValueId> result;
  for (const std::int64_t axis : {1, -1}) {
    for (const std::int64_t last : {0, 1}) {
      for (const std::int64_t keepdims : {0, 1}) {
        result.push_back(g.add(op, {x},
                               {{"axis", graph::number(axis)},
                                {"keepdims", graph::number(keepdims)},
                                {"select_last_index", graph::number(last)}}));
      }
    }
  }
  return result;
}

TEST(Decompositions, PositionsOfExtremesWithTies) {
  for (const OpKind op : {OpKind::ArgMax, OpKind::ArgMin}) {
    check([&](Graph& g) { g.outputs = positions(g, with_ties(g, symbolic_input(g, {5, 7})), op); });
    check([&](Graph& g) { g.outputs = positions(g, symbolic_input(g, {1, 33}, DType::I32), op); });
    check([&](Graph& g) { g.outputs = positions(g, symbolic_input(g, {3, 2}, DType::I64), op); });
  }
}

TEST(Decompositions, ThePositionOfTheFirstNan) {
  for (const float least : {-0.9F, 0.0F, 2.0F}) {
    for (const OpKind op : {OpKind::ArgMax, OpKind::ArgMin})
      check([&](Graph& g) { g.outputs = positions(g, with_nan(g, symbolic_input(g, {5, 7}), least), op); });
  }
}

TEST(Decompositions, PositionsInSquares) {
  check([](Graph& g) {
    const ValueId x = add_input(g, DType::F32, Shape{4, 4}, "x");
    g.outputs = positions(g, with_ties(g, x), OpKind::ArgMax);
    g.outputs.push_back(g.add(OpKind::Hardmax, {with_ties(g, x)}));
  });
}

TEST(Decompositions, PositionsAlongUnknownExtents) {
  for (const OpKind op : {OpKind::ArgMax, OpKind::ArgMin}) {
    check([&](Graph& g) {
      const graph::Dim n = symbol(g, "n");
      g.outputs = positions(g, with_ties(g, graph::add_input(g, DType::F32, Shape{n, n, n}, "x")), op);
      const ValueId nan = with_nan(g, graph::add_input(g, DType::F32, Shape{2, n, n}, "nan"), 0.0F);
      for (const ValueId place : positions(g, nan, op)) g.outputs.push_back(place);
      g.outputs.push_back(g.add(OpKind::Hardmax, {nan}, {{"axis", graph::number(1)}}));
    });
  }
}

TEST(Decompositions, HardmaxOfTiesAndNan) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5, 7});
    g.outputs = {g.add(OpKind::Hardmax, {with_ties(g, x)}, {{"axis", graph::number(1)}}),
                 g.add(OpKind::Hardmax, {with_ties(g, x)}), g.add(OpKind::Hardmax, {with_nan(g, x, 0.0F)})};
  });
}

TEST(Decompositions, DropoutOutsideTraining) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5});
    Tensor no(DType::I1, {});
    no.as_mutable<std::uint8_t>()[0] = 0;
    const std::vector<std::string> both{"y", "mask"};
    const ValueId training = g.add_constant(no);
    const graph::NodeId masked =
        g.add_node(OpKind::Dropout, {x, real(g, 0.5F), training}, {}, "dropout", both);
    g.outputs = {g.add(OpKind::Dropout, {x}), g.node(masked).outputs[0], g.node(masked).outputs[1]};
  });
}

TEST(Decompositions, FormulasDecideAboutNanAndInfinity) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5, 7});
    const Attributes soft{{"bias", 0.25}, {"lambd", 0.5}}, negative{{"bias", 0.5}, {"lambd", -0.25}};
    const ValueId nan = with_nan(g, x, 0.0F), infinite = g.add(OpKind::Div, {x, real(g, 0.0F)});
    for (const ValueId value : {x, nan, infinite}) {
      g.outputs.push_back(g.add(OpKind::Shrink, {value}, soft));
      g.outputs.push_back(g.add(OpKind::Shrink, {value}, negative));
      g.outputs.push_back(g.add(OpKind::ThresholdedRelu, {value}, {{"alpha", 0.5}}));
      g.outputs.push_back(g.add(OpKind::Softsign, {value}));
    }
  });
}

TEST(Decompositions, PowersOfMixedTypes) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {4});
    const ValueId whole = graph::add_input(g, DType::I64, Shape{4}, "k");
    const ValueId small = graph::add_input(g, DType::I32, Shape{4}, "j");
    g.outputs = {g.add(OpKind::Pow, {x, whole}), g.add(OpKind::Pow, {x, graph::scalar(g, -3)}),
                 g.add(OpKind::Pow, {whole, x}), g.add(OpKind::Pow, {small, real(g, 2.5F)})};
  });
}

TEST(Decompositions, MeanVarianceNormalization) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {3, 5, 2});
    g.outputs = {g.add(OpKind::MeanVarianceNormalization, {x}),
                 g.add(OpKind::MeanVarianceNormalization, {x}, {{"axes", graph::list({-1, 2})}})};
  });
}

TEST(Decompositions, BatchNormalizationByVaryingParameters) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5, 3, 2});
    const auto vector = [&](const char* name) { return graph::add_input(g, DType::F32, Shape{5}, name); };
    const ValueId scale = vector("scale"), bias = vector("bias"), mean = vector("mean"),
                  root = vector("root");
    const ValueId variance = g.add(OpKind::Mul, {root, root});
    const ValueId line = g.add(OpKind::Reshape, {x, graph::integers(g, {-1, 5})});
    g.outputs = {
        g.add(OpKind::BatchNormalization, {x, scale, bias, mean, variance}, {{"epsilon", 0.01}}),
        g.add(OpKind::BatchNormalization, {line, scale, bias, random_weights(g, {5}, 1), variance}),
    };
  });
}

TEST(Decompositions, GroupNormalization) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {6, 3, 5});
    const ValueId scale = graph::add_input(g, DType::F32, Shape{6}, "scale");
    const ValueId bias = random_weights(g, {6}, 2);
    for (const std::int64_t groups : {1, 2, 6}) {
      g.outputs.push_back(
          g.add(OpKind::GroupNormalization, {x, scale, bias}, {{"num_groups", graph::number(groups)}}));
    }
    const ValueId flat =
        g.add(OpKind::ReduceMax, {x, graph::integers(g, {2, 3})}, {{"keepdims", graph::number(0)}});
    g.outputs.push_back(
        g.add(OpKind::GroupNormalization, {flat, scale, bias}, {{"num_groups", graph::number(3)}}));
  });
}

TEST(Decompositions, LocalResponseNormalization) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5, 3, 4});
    for (const std::int64_t size : {1, 2, 3, 11}) {
      g.outputs.push_back(g.add(
          OpKind::LRN, {x}, {{"size", graph::number(size)}, {"alpha", 0.5}, {"beta", 0.6}, {"bias", 1.5}}));
    }
    const ValueId flat = g.add(OpKind::Reshape, {x, graph::integers(g, {-1, 60})});
    g.outputs.push_back(g.add(OpKind::LRN, {flat}, {{"size", graph::number(4)}, {"alpha", 2.0}}));
  });
}

TEST(Decompositions, LpPoolsWithPadding) {
  for (const std::int64_t p : {1, 2, 3}) {
    check([&](Graph& g) {
      const ValueId x = symbolic_input(g, {2, 7, 6});
      const Attributes window{{"kernel_shape", graph::list({3, 2})}, {"p", graph::number(p)}};
      Attributes padded = window, strided = window, same = window, dilated = window;
      padded["pads"] = graph::list({2, 1, 1, 1});
      strided["strides"] = graph::list({2, 3});
      same["auto_pad"] = std::string("SAME_LOWER");
      dilated["dilations"] = graph::list({2, 2});
      dilated["pads"] = graph::list({1, 1, 0, 1});
      g.outputs = {g.add(OpKind::LpPool, {x}, window), g.add(OpKind::LpPool, {x}, padded),
                   g.add(OpKind::LpPool, {x}, strided), g.add(OpKind::LpPool, {x}, same),
                   g.add(OpKind::LpPool, {x}, dilated)};
    });
  }
}

TEST(Decompositions, OneHotCountsFromBothEnds) {
  for (const DType dtype : {DType::I32, DType::I64, DType::F32}) {
    check([&](Graph& g) {
      const ValueId x = symbolic_input(g, {3}, dtype);
      // Of integers 0 to 9: -6 to 3. Of floats: fractions, which are cut off.
      const Tensor shift = dtype == DType::F32 ? Tensor::from<float>(DType::F32, {}, std::array{0.5F})
                           : dtype == DType::I32
                               ? Tensor::from<std::int32_t>(DType::I32, {}, std::array<std::int32_t, 1>{-6})
                               : Tensor::from_integer(-6);
      const ValueId index = g.add(OpKind::Add, {x, g.add_constant(shift)});
      const ValueId values = graph::add_input(g, DType::F32, Shape{2}, "values");
      const ValueId bytes = g.add_constant(Tensor::from<std::int32_t>(DType::I32, {2}, std::array{-1, 7}));
      for (const std::int64_t axis : {-1, 0, 1}) {
        g.outputs.push_back(
            g.add(OpKind::OneHot, {index, graph::integers(g, {4}), values}, {{"axis", graph::number(axis)}}));
      }
      g.outputs.push_back(g.add(OpKind::OneHot, {index, graph::scalar(g, 1), bytes}));
    });
  }
}

TEST(Decompositions, ExtremesOfBooleans) {
  for (const OpKind op : {OpKind::ReduceMax, OpKind::ReduceMin}) {
    check([&](Graph& g) {
      const ValueId x = symbolic_input(g, {3, 5}, DType::I1);
      const ValueId nothing = g.add(
          OpKind::Slice, {x, graph::integers(g, {0}), graph::integers(g, {0}), graph::integers(g, {1})});
      g.outputs = {g.add(op, {x, graph::integers(g, {1})}), g.add(op, {x}, {{"keepdims", graph::number(0)}}),
                   g.add(op, {nothing, graph::integers(g, {1})})};
    });
  }
}

TEST(Decompositions, ReductionsOfNoAxes) {
  for (const OpKind op : {OpKind::ReduceSum, OpKind::ReduceMean, OpKind::ReduceProd, OpKind::ReduceMax,
                          OpKind::ReduceMin, OpKind::ReduceL1}) {
    check(
        [&](Graph& g) {
          const ValueId x = symbolic_input(g, {5});
          const Attributes noop{{"noop_with_empty_axes", graph::number(1)}};
          g.outputs = {g.add(op, {x}, noop), g.add(op, {x, graph::integers(g, {})}, noop),
                       g.add(op, {x, graph::integers(g, {})})};
        },
        op == OpKind::ReduceL1);
  }
}

TEST(Decompositions, PlacesOfPooledMaxima) {
  for (const std::int64_t columns_first : {0, 1}) {
    check([&](Graph& g) {
      const ValueId x = with_ties(g, symbolic_input(g, {3, 7, 5}));
      const ValueId nan = with_nan(g, symbolic_input(g, {2, 6}), 0.0F);
      const auto pool = [&](ValueId input, Attributes attributes) {
        attributes["storage_order"] = columns_first;
        const std::vector<std::string> both{"y", "places"};
        const graph::NodeId node = g.add_node(OpKind::MaxPool, {input}, std::move(attributes), "pool", both);
        for (const ValueId output : g.node(node).outputs) g.outputs.push_back(output);
      };
      pool(x, {{"kernel_shape", graph::list({2, 3})}});
      pool(x, {{"kernel_shape", graph::list({3, 3})},
               {"strides", graph::list({2, 1})},
               {"dilations", graph::list({2, 1})},
               {"pads", graph::list({2, 1, 1, 2})}});
      pool(x, {{"kernel_shape", graph::list({2, 2})},
               {"pads", graph::list({1, 0, 1, 1})},
               {"strides", graph::list({3, 2})},
               {"ceil_mode", graph::number(1)}});
      pool(nan, {{"kernel_shape", graph::list({3})}, {"pads", graph::list({1, 1})}});
      pool(x, {{"kernel_shape", graph::list({7, 8})}, {"pads", graph::list({3, 4, 3, 4})}});
      g.outputs.push_back(g.add(OpKind::Mod, {g.outputs[1], graph::scalar(g, 5)}));
    });
  }
}

}  // namespace
}  // namespace kiln
