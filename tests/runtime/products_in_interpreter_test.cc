// Convolutions with weights that a run brings, matrix products of other forms, Einsum, integer division and
// powers, running sums: in the tile interpreter, against reference kernels.
#include <limits>

#include "tests/runtime/region_check.h"

namespace kiln {
namespace {

using namespace kiln::testing;
using graph::Attributes;
using graph::Graph;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

ValueId more(Graph& g, Shape shape, DType dtype = DType::F32) {
  return graph::add_input(g, dtype, std::move(shape), "w" + std::to_string(g.inputs.size()));
}

TEST(Products, ConvolutionsByWeightsOfTheRun) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {6, 5, 7});
    const ValueId padded =
        g.add(OpKind::Conv, {x, more(g, {8, 6, 3, 2}), more(g, {8})}, {{"pads", graph::list({1, 0, 2, 1})}});
    const ValueId grouped = g.add(OpKind::Conv, {x, more(g, {9, 2, 2, 2})},
                                  {{"group", graph::number(3)}, {"strides", graph::list({2, 1})}});
    const ValueId separate = g.add(OpKind::Conv, {x, more(g, {6, 1, 3, 3})},
                                   {{"group", graph::number(6)}, {"pads", graph::list({1, 1, 1, 1})}});
    const ValueId pointwise = g.add(OpKind::Conv, {x, more(g, {4, 6, 1, 1}), more(g, {4})});
    const ValueId computed =
        g.add(OpKind::Conv, {x, g.add(OpKind::Exp, {more(g, {3, 6, 3, 3})})},
              {{"auto_pad", std::string("SAME_UPPER")}, {"dilations", graph::list({1, 2})}});
    g.outputs = {g.add(OpKind::Relu, {padded}), grouped, separate, pointwise, computed};
  });
}

TEST(Products, ConvolutionsOfOneAndThreeAxes) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {3, 11});
        const ValueId volume = more(g, {2, 2, 4, 3, 5});
        g.outputs = {g.add(OpKind::Conv, {x, more(g, {2, 3, 4})}, {{"pads", graph::list({2, 1})}}),
                     g.add(OpKind::Conv, {volume, more(g, {3, 2, 2, 3, 2})},
                           {{"pads", graph::list({0, 1, 1, 1, 1, 0})}}),
                     g.add(OpKind::ConvTranspose, {x, more(g, {3, 2, 4})}, {{"strides", graph::list({3})}}),
                     g.add(OpKind::ConvTranspose, {volume, more(g, {2, 3, 2, 1, 2})},
                           {{"strides", graph::list({1, 2, 2})}})};
      },
      false, {1, 2});
}

TEST(Products, TransposedConvolutions) {
  check(
      [](Graph& g) {
        const ValueId x = symbolic_input(g, {4, 3, 5});
        const ValueId constant = random_weights(g, {4, 3, 3, 2}, 7);
        const auto transposed = [&](ValueId weights, Attributes attributes) {
          return g.add(OpKind::ConvTranspose, {x, weights}, std::move(attributes));
        };
        g.outputs = {
            transposed(constant, {}),
            transposed(constant, {{"strides", graph::list({2, 3})}, {"output_padding", graph::list({1, 2})}}),
            transposed(more(g, {4, 3, 3, 2}), {{"pads", graph::list({2, 1, 1, 0})}}),
            transposed(more(g, {4, 2, 3, 3}),
                       {{"group", graph::number(2)}, {"strides", graph::list({2, 2})}}),
            transposed(constant, {{"dilations", graph::list({2, 1})}, {"strides", graph::list({1, 2})}}),
            transposed(constant, {{"output_shape", graph::list({7, 11})}, {"strides", graph::list({2, 2})}}),
            transposed(constant, {{"auto_pad", std::string("SAME_UPPER")}, {"strides", graph::list({3, 2})}}),
        };
      },
      false, {1, 3});
}

// A tap in the padding, or between the elements of a transposed convolution's input, adds nothing.
TEST(Products, PaddingMeetsWeightsThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  check(
      [&](Graph& g) {
        const ValueId x = symbolic_input(g, {2, 4, 4});
        // Unequal to any weight: what is infinite or NaN depends on the place alone.
        Tensor marks(DType::F32, {3, 2, 3, 3});
        marks.as_mutable<float>()[0] = kInfinity;
        marks.as_mutable<float>()[20] = -kInfinity;
        marks.as_mutable<float>()[53] = std::numeric_limits<float>::quiet_NaN();
        const ValueId weights = g.add(OpKind::Add, {more(g, {3, 2, 3, 3}), g.add_constant(marks)});
        const ValueId back = g.add(OpKind::Transpose, {weights}, {{"perm", graph::list({1, 0, 2, 3})}});
        g.outputs = {g.add(OpKind::Conv, {x, weights}, {{"pads", graph::list({1, 1, 1, 1})}}),
                     g.add(OpKind::ConvTranspose, {x, back}, {{"strides", graph::list({2, 2})}})};
      },
      false, {2});
}

TEST(Products, ProductsOfVectors) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {4, 5});
    g.outputs = {g.add(OpKind::MatMul, {x, more(g, {5})}), g.add(OpKind::MatMul, {more(g, {4}), x}),
                 g.add(OpKind::MatMul, {more(g, {6}), more(g, {6})}),
                 g.add(OpKind::MatMul, {x, random_weights(g, {5}, 3)})};
  });
}

TEST(Products, EinsumIsProductsOfPairs) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {4, 5}), y = more(g, {5, 3}), square = more(g, {4, 4});
    const auto einsum = [&](const char* equation, std::vector<ValueId> inputs) {
      return g.add(OpKind::Einsum, std::move(inputs), {{"equation", std::string(equation)}});
    };
    g.outputs = {einsum("nij,jk->nik", {x, y}),
                 einsum("nij,jk->kn", {x, y}),
                 einsum("...ij->...ji", {x}),
                 einsum("nij->i", {x}),
                 einsum("ii->i", {square}),
                 einsum("ii", {square}),
                 einsum("i,j->ij", {more(g, {3}), more(g, {2})}),
                 einsum("nij,ii,nik->njk", {x, square, x}),
                 einsum("...i,...i->...", {x, more(g, {1, 5})}),
                 einsum("i,i", {more(g, {7}), more(g, {7})}),
                 einsum("ij,jk->ik", {more(g, {2, 3}, DType::I64), more(g, {3, 4}, DType::I64)})};
  });
}

TEST(Products, IntegersAreDivided) {
  check([](Graph& g) {
    for (const DType dtype : {DType::I32, DType::I64}) {
      const ValueId x = graph::add_input(g, dtype, Shape{5, 37}), y = graph::add_input(g, dtype, Shape{37});
      const auto constant = [&](std::int64_t value, Extents extents) {
        Tensor tensor(dtype, std::move(extents));
        for (std::int64_t i = 0; i < tensor.elements(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          if (dtype == DType::I32) {
            tensor.as_mutable<std::int32_t>()[at] = static_cast<std::int32_t>(value);
          } else {
            tensor.as_mutable<std::int64_t>()[at] = value;
          }
        }
        return g.add_constant(std::move(tensor));
      };
      const std::int64_t least = dtype == DType::I32 ? INT32_MIN : INT64_MIN;
      const ValueId numerator = g.add(OpKind::Sub, {x, constant(4, {})});
      // Where there is nothing to read, this is 0.
      const ValueId positive = g.add(OpKind::Add, {y, constant(1, {37})});
      const ValueId any = g.add(OpKind::Sub, {g.add(OpKind::Mul, {y, constant(2, {})}), constant(9, {})});
      for (const ValueId divisor : {positive, any, constant(-1, {37})}) {
        g.outputs.push_back(g.add(OpKind::Div, {numerator, divisor}));
        g.outputs.push_back(g.add(OpKind::Mod, {numerator, divisor}));
        g.outputs.push_back(g.add(OpKind::Mod, {numerator, divisor}, {{"fmod", graph::number(1)}}));
      }
      const ValueId minimum =
          g.add(OpKind::Add, {g.add(OpKind::Mul, {x, constant(0, {})}), constant(least, {})});
      g.outputs.push_back(g.add(OpKind::Div, {minimum, constant(-1, {37})}));
      g.outputs.push_back(g.add(OpKind::Mod, {minimum, constant(-1, {37})}));
    }
  });
}

TEST(Products, PowersOfIntegersAreExact) {
  check([](Graph& g) {
    for (const DType dtype : {DType::I32, DType::I64}) {
      const ValueId x = graph::add_input(g, dtype, Shape{5, 19}),
                    y = graph::add_input(g, DType::I64, Shape{19});
      const ValueId k = graph::add_input(g, DType::I32, Shape{5, 1});
      const ValueId base = g.add(OpKind::Sub, {g.add(OpKind::Add, {x, x}), x});
      const ValueId odd = g.add(OpKind::BitwiseOr, {base, g.add(OpKind::Cast, {graph::scalar(g, 1)},
                                                                {{"to", static_cast<std::int64_t>(dtype)}})});
      const ValueId exponent =
          g.add(OpKind::Sub, {g.add(OpKind::Mul, {y, graph::scalar(g, 7)}), graph::scalar(g, 30)});
      g.outputs.push_back(g.add(OpKind::Pow, {base, y}));
      g.outputs.push_back(g.add(OpKind::Pow, {base, k}));
      g.outputs.push_back(g.add(OpKind::Pow, {odd, exponent}));
      g.outputs.push_back(g.add(OpKind::Pow, {g.add(OpKind::Neg, {odd}), exponent}));
      for (const std::int64_t power : {-2, -1, 0, 1, 2, 13, 63, 64})
        g.outputs.push_back(g.add(OpKind::Pow, {odd, graph::scalar(g, power)}));
    }
  });
}

TEST(Products, ReductionsAlongNoAxis) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {4}), one = more(g, {}), whole = more(g, {3}, DType::I32);
    const ValueId none = graph::integers(g, {});
    for (const OpKind op : {OpKind::ReduceSum, OpKind::ReduceMean, OpKind::ReduceMax, OpKind::ReduceMin,
                            OpKind::ReduceProd, OpKind::ReduceL1, OpKind::ReduceL2, OpKind::ReduceLogSum,
                            OpKind::ReduceLogSumExp, OpKind::ReduceSumSquare}) {
      const Attributes noop{{"noop_with_empty_axes", graph::number(1)}};
      g.outputs.push_back(g.add(op, {x, none}, noop));
      g.outputs.push_back(g.add(op, {one}));
      if (op == OpKind::ReduceL1 || op == OpKind::ReduceMean)
        g.outputs.push_back(g.add(op, {whole, none}, noop));
    }
  });
}

TEST(Products, RunningSums) {
  check([](Graph& g) {
    const ValueId x = symbolic_input(g, {4, 5});
    for (const OpKind op : {OpKind::CumSum, OpKind::CumProd}) {
      for (const std::int64_t axis : {0, 1, -1}) {
        g.outputs.push_back(g.add(op, {x, graph::scalar(g, axis)}, {{"exclusive", graph::number(axis & 1)}}));
        g.outputs.push_back(g.add(op, {x, graph::scalar(g, axis)}, {{"reverse", graph::number(1)}}));
      }
    }
    g.outputs.push_back(g.add(OpKind::CumSum, {more(g, {3, 70}, DType::I32), graph::scalar(g, 1)}));
  });
}

}  // namespace
}  // namespace kiln
