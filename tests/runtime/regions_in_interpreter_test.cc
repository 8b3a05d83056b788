// Small models through passes, layouts, regions and templates, run in the tile interpreter, against the same
// graph on reference kernels. No code is generated: what fails here is above the jit.
#include "tests/runtime/region_check.h"

namespace kiln {
namespace {

using namespace kiln::testing;
using graph::Attributes;
using graph::Graph;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

TEST(Regions, ElementwiseChainWithBroadcasts) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5, 7});
    ValueId y = g.add(OpKind::Relu, {g.add(OpKind::Add, {x, random_weights(g, {7}, 1)})});
    y = g.add(OpKind::Mul, {y, random_weights(g, {5, 1}, 2)});
    g.outputs = {g.add(OpKind::Sigmoid, {y})};
  });
}

// The operand that only says a type has more axes than the result.
TEST(Regions, CastLikeSomethingLarger) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {5, 7});
    const ValueId row = graph::add_input(g, DType::F32, Shape{7});
    const ValueId like = g.add(OpKind::Relu, {x});
    const ValueId half = g.add(OpKind::Cast, {like}, {{"to", graph::number(static_cast<int>(DType::F16))}});
    g.outputs = {g.add(OpKind::Exp, {g.add(OpKind::CastLike, {row, half})}), like};
  });
}

TEST(Regions, PerceptronWithSoftmax) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {20});
    ValueId y = g.add(OpKind::Gemm, {x, random_weights(g, {33, 20}, 1), random_weights(g, {33}, 2)},
                      {{"transB", graph::number(1)}});
    y = g.add(OpKind::Relu, {y});
    y = g.add(OpKind::Gemm, {y, random_weights(g, {33, 10}, 3)}, {{"alpha", 0.5}});
    g.outputs = {g.add(OpKind::Softmax, {y})};
  });
}

TEST(Regions, ConvolutionNetwork) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {3, 9, 9});
        ValueId y = g.add(OpKind::Conv, {x, random_weights(g, {8, 3, 3, 3}, 1), random_weights(g, {8}, 2)},
                          {{"pads", graph::list({1, 1, 1, 1})}});
        y = g.add(OpKind::Relu, {y});
        const ValueId pooled = g.add(
            OpKind::MaxPool, {y}, {{"kernel_shape", graph::list({2, 2})}, {"strides", graph::list({2, 2})}});
        ValueId z = g.add(OpKind::Conv, {pooled, random_weights(g, {8, 1, 3, 3}, 3)},
                          {{"pads", graph::list({1, 1, 1, 1})}, {"group", graph::number(8)}});
        z = g.add(OpKind::Add, {z, pooled});
        z = g.add(OpKind::Conv, {z, random_weights(g, {5, 8, 1, 1}, 4)});
        z = g.add(OpKind::GlobalAveragePool, {z});
        g.outputs = {g.add(OpKind::Flatten, {z})};
      },
      false, {1, 2});
}

TEST(Regions, ResidualBlocksWithBatchNormalization) {
  check(
      [](Graph& g) {
        const auto normalised = [&](ValueId x, std::uint64_t seed) {
          const std::int64_t channels = (*g.value(x).shape)[1].constant();
          ValueId variance = random_weights(g, {channels}, seed + 3);
          for (float& v : g.value(variance).constant->as_mutable<float>()) v = v * v + 0.5F;
          return g.add(OpKind::BatchNormalization,
                       {x, random_weights(g, {channels}, seed), random_weights(g, {channels}, seed + 1),
                        random_weights(g, {channels}, seed + 2), variance});
        };
        const auto convolution = [&](ValueId x, std::int64_t outputs, std::int64_t step, std::uint64_t seed) {
          const std::int64_t channels = (*g.value(x).shape)[1].constant();
          return g.add(OpKind::Conv, {x, random_weights(g, {outputs, channels, 3, 3}, seed)},
                       {{"pads", graph::list({1, 1, 1, 1})}, {"strides", graph::list({step, step})}});
        };
        const ValueId x = symbolic_input(g, {3, 12, 12});
        ValueId y = g.add(OpKind::Relu, {normalised(convolution(x, 8, 1, 10), 20)});
        y = g.add(OpKind::MaxPool, {y},
                  {{"kernel_shape", graph::list({3, 3})},
                   {"strides", graph::list({2, 2})},
                   {"pads", graph::list({1, 1, 1, 1})}});
        ValueId z = g.add(OpKind::Relu, {normalised(convolution(y, 16, 2, 30), 40)});
        z = normalised(convolution(z, 16, 1, 50), 60);
        const ValueId shortcut = normalised(g.add(OpKind::Conv, {y, random_weights(g, {16, 8, 1, 1}, 70)},
                                                  {{"strides", graph::list({2, 2})}}),
                                            80);
        z = g.add(OpKind::Relu, {g.add(OpKind::Add, {z, shortcut})});
        z = normalised(z, 90);
        g.outputs = {g.add(OpKind::Flatten, {g.add(OpKind::GlobalAveragePool, {z})})};
      },
      false, {1, 2});
}

TEST(Regions, PaddingMeetsNoInfiniteWeight) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {2, 5, 5});
        const ValueId w = random_weights(g, {3, 2, 3, 3}, 1);
        g.value(w).constant->as_mutable<float>()[0] = std::numeric_limits<float>::infinity();
        const ValueId y = g.add(OpKind::Conv, {x, w}, {{"pads", graph::list({1, 1, 1, 1})}});
        g.outputs = {g.add(OpKind::Relu, {y})};
      },
      false, {1, 2});
}

TEST(Regions, StridedGroupedAndAveraged) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {4, 8, 7});
        ValueId y = g.add(OpKind::Conv, {x, random_weights(g, {6, 2, 3, 2}, 1)},
                          {{"pads", graph::list({1, 0, 0, 1})},
                           {"strides", graph::list({2, 1})},
                           {"group", graph::number(2)}});
        y = g.add(OpKind::AveragePool, {y},
                  {{"kernel_shape", graph::list({3, 3})}, {"pads", graph::list({1, 1, 1, 1})}});
        g.outputs = {y};
      },
      false, {1, 2});
}

TEST(Regions, OneChannelAndOneColumn) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {3, 5, 6});
        ValueId y = g.add(OpKind::Conv, {x, random_weights(g, {1, 3, 2, 2}, 1), random_weights(g, {1}, 2)});
        y = g.add(OpKind::Conv, {y, random_weights(g, {1, 1, 1, 1}, 3), random_weights(g, {1}, 4)});
        y = g.add(OpKind::Flatten, {y});
        g.outputs = {g.add(OpKind::Gemm, {y, random_weights(g, {20, 1}, 5), random_weights(g, {1}, 6)})};
      },
      false, {1, 2});
}

TEST(Regions, AttentionHeads) {
  check(
      [](Graph& g) {
        const graph::Dim n = symbol(g, "n");
        const ValueId x = add_input(g, DType::F32, Shape{2, n, 8}, "x");
        const auto heads = [&](std::uint64_t seed, std::vector<std::int64_t> permutation) {
          const ValueId projected = g.add(OpKind::MatMul, {x, random_weights(g, {8, 8}, seed)});
          const ValueId split = g.add(OpKind::Reshape, {projected, graph::integers(g, {2, -1, 2, 4})});
          return g.add(OpKind::Transpose, {split}, {{"perm", graph::list(std::move(permutation))}});
        };
        const ValueId scores = g.add(OpKind::MatMul, {heads(1, {0, 2, 1, 3}), heads(2, {0, 2, 3, 1})});
        const ValueId scaled = g.add(OpKind::Div, {scores, g.add_constant(random_tensor(DType::F32, {}, 9))});
        const ValueId mixed =
            g.add(OpKind::MatMul, {g.add(OpKind::Softmax, {scaled}), heads(3, {0, 2, 1, 3})});
        const ValueId merged = g.add(OpKind::Transpose, {mixed}, {{"perm", graph::list({0, 2, 1, 3})}});
        g.outputs = {g.add(OpKind::Reshape, {merged, graph::integers(g, {2, -1, 8})})};
      },
      false, {1, 5});
}

TEST(Regions, NormsFusedAndDecomposed) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {12});
    const ValueId y =
        g.add(OpKind::LayerNormalization, {x, random_weights(g, {12}, 1), random_weights(g, {12}, 2)});
    const ValueId axes = graph::integers(g, {-1});
    const ValueId centred = g.add(OpKind::Sub, {y, g.add(OpKind::ReduceMean, {y, axes})});
    const ValueId variance = g.add(OpKind::ReduceMean, {g.add(OpKind::Mul, {centred, centred}), axes});
    g.outputs = {g.add(OpKind::Div, {centred, g.add(OpKind::Sqrt, {variance})}), y};
  });
}

TEST(Regions, ReductionsOverDynamicRows) {
  check(
      [](Graph& g) {
        const graph::Dim n = symbol(g, "n");
        const ValueId x = add_input(g, DType::F32, Shape{3, n}, "x");
        g.outputs = {
            g.add(OpKind::Softmax, {x}), g.add(OpKind::ReduceMax, {x, graph::integers(g, {0})}),
            g.add(OpKind::ReduceLogSumExp, {x, graph::integers(g, {1})}, {{"keepdims", graph::number(0)}})};
      },
      false, {1, 17, 700});
}

TEST(Regions, ConcatIsWrittenInPlaceAndSplitIsAView) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {6, 4});
    const ValueId a = g.add(OpKind::Relu, {x}), b = g.add(OpKind::Exp, {x});
    const ValueId all = g.add(OpKind::Concat, {a, b, x, a}, {{"axis", graph::number(1)}});
    const ValueId part = g.add(OpKind::Slice, {all, graph::integers(g, {3}), graph::integers(g, {20}),
                                               graph::integers(g, {1}), graph::integers(g, {2})});
    g.outputs = {g.add(OpKind::Tanh, {part}), all,
                 g.add(OpKind::Transpose, {all}, {{"perm", graph::list({2, 0, 1})}})};
  });
}

TEST(Regions, GatherAlongEveryAxis) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId indices = add_input(g, DType::I64, Shape{n, 2}, "i");
    const ValueId table = random_weights(g, {10, 11, 12}, 1);
    const ValueId few = g.add_constant(random_tensor(DType::I32, {3}, 2));
    for (const std::int64_t axis : {0, 1, 2}) {
      const Attributes along{{"axis", graph::number(axis)}};
      const ValueId chosen = g.add(OpKind::Gather, {table, indices}, along);
      g.outputs.push_back(g.add(OpKind::Relu, {g.add(OpKind::Add, {chosen, chosen})}));
      g.outputs.push_back(g.add(OpKind::Gather, {table, few}, along));
    }
  });
}

TEST(Regions, EmbeddingsAreAdded) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId words = add_input(g, DType::I64, Shape{2, n}, "words");
    const ValueId types = add_input(g, DType::I32, Shape{2, n}, "types");
    const ValueId positions =
        g.add(OpKind::Slice,
              {random_weights(g, {20, 8}, 3), graph::integers(g, {0}),
               g.add(OpKind::Shape, {words}, {{"start", graph::number(1)}}), graph::integers(g, {0})});
    ValueId sum = g.add(OpKind::Add, {g.add(OpKind::Gather, {random_weights(g, {10, 8}, 1), words}),
                                      g.add(OpKind::Gather, {random_weights(g, {10, 8}, 2), types})});
    sum = g.add(OpKind::Add, {sum, positions});
    g.outputs = {g.add(OpKind::Softmax, {sum})};
  });
}

TEST(Regions, SmallConstantsAreOperandsToo) {
  check([](Graph& g) {
    const graph::Dim n = symbol(g, "n");
    const ValueId x = add_input(g, DType::I64, Shape{n, 3}, "x");
    const ValueId whole = graph::integers(g, {-1, 2, 5});
    const ValueId rows = g.add(OpKind::Reshape, {whole, graph::integers(g, {1, 3})});
    // A shape read as data, and known parts of a Concat that is computed.
    const ValueId shape = g.add(OpKind::Shape, {x});
    const ValueId padded =
        g.add(OpKind::Concat, {g.add(OpKind::Mul, {x, whole}), rows}, {{"axis", graph::number(0)}});
    g.outputs = {g.add(OpKind::Gather, {shape, g.add(OpKind::Mod, {x, graph::integers(g, {2})})}), padded,
                 g.add(OpKind::Add, {g.add(OpKind::Unsqueeze, {shape, graph::integers(g, {1})}), whole})};
  });
}

// In a square the shape of a vector does not tell which axis it lies along.
TEST(Regions, VectorsBesideTheRowsOfASquare) {
  check(
      [](Graph& g) {
        const ValueId x = add_input(g, DType::F32, Shape{4, 4}, "x");
        const ValueId b = add_input(g, DType::F32, Shape{4}, "b");
        const Attributes drop{{"keepdims", graph::number(0)}};
        const ValueId last = graph::integers(g, {1}), first = graph::integers(g, {0});
        const ValueId sum = g.add(OpKind::ReduceSum, {g.add(OpKind::Exp, {x}), last}, drop);
        const ValueId other = g.add(OpKind::ReduceSum, {g.add(OpKind::Neg, {x}), last}, drop);
        const ValueId lead = g.add(OpKind::ReduceSum, {g.add(OpKind::Sin, {x}), first}, drop);
        const ValueId both = g.add(OpKind::ReduceMax, {g.add(OpKind::Mul, {x, b}), last}, drop);
        g.outputs = {g.add(OpKind::Softmax, {g.add(OpKind::Add, {x, b})}),
                     g.add(OpKind::LayerNormalization, {x, b, random_weights(g, {4}, 1)}),
                     g.add(OpKind::Add, {sum, b}),
                     g.add(OpKind::Sub, {x, other}),
                     g.add(OpKind::Sub, {x, lead}),
                     g.add(OpKind::Add, {both, b})};
      },
      true);
}

}  // namespace
}  // namespace kiln
