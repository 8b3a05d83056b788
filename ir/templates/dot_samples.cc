#include <tuple>

#include <fmt/format.h>

#include "ir/templates/samples.h"

namespace kiln::templates {
namespace {

using graph::Attributes;
using graph::Dim;
using graph::OpKind;
using graph::ValueId;
using List = std::vector<std::int64_t>;

Attributes window(List strides, List pads, std::int64_t group = 1) {
  return {{"strides", std::move(strides)}, {"pads", std::move(pads)}, {"group", group}};
}

struct ConvolutionSample {
  std::int64_t inputs, outputs;
  List kernel;
  Attributes attributes;
};

// Every shape dense and channels last, with and without bias and epilogue.
void add_convolutions(Samples& samples, const std::vector<ConvolutionSample>& shapes) {
  for (const ConvolutionSample& shape : shapes) {
    for (const Lie lie : {Lie::Dense, Lie::ChannelsLast}) {
      const bool dressed = lie == Lie::ChannelsLast;
      SampleBuilder b(fmt::format("{} to {} channels, {} taps, lie {}", shape.inputs, shape.outputs,
                                  shape.kernel[0] * shape.kernel[1], static_cast<int>(lie)));
      const ValueId x = b.input(DType::F32, {b.symbol("n"), shape.inputs, b.symbol("h"), 9}, lie);
      const std::int64_t group = std::get<std::int64_t>(shape.attributes.at("group"));
      std::vector<ValueId> operands{
          x, b.weights(DType::F32, {shape.outputs, shape.inputs / group, shape.kernel[0], shape.kernel[1]})};
      if (dressed && shape.outputs > 1) operands.push_back(b.weights(DType::F32, {shape.outputs}));
      const ValueId y = b.add(OpKind::Conv, operands, shape.attributes);
      const ValueId result = dressed ? b.add(OpKind::Relu, {y}) : y;
      b.output(result, lie);
      samples.push_back(b.finish(y, {{0, 5}, {1, 5}, {2, 8}, {1, 30}}));
    }
  }
}

}  // namespace

Samples dot_samples(const Target&) {
  Samples samples;
  const std::vector<List> rows{{0}, {1}, {2}, {5}, {6}, {7}, {13}, {14}, {15}, {31}, {64}, {65}};
  for (const std::int64_t columns : {1, 7, 16, 31, 32, 33, 100, 257}) {
    for (const std::int64_t depth : {1, 3, 64, 301}) {
      if (columns * depth < 2) continue;
      SampleBuilder b(fmt::format("packed {} deep to {} columns", depth, columns));
      const ValueId y = b.add(OpKind::MatMul, {b.input(DType::F32, {b.symbol("m"), depth}),
                                               b.weights(DType::F32, {depth, columns})});
      b.output(y);
      samples.push_back(b.finish(y, depth == 64 ? rows : std::vector<List>{{1}, {17}, {80}}));
    }
  }
  for (const std::int64_t transpose_a : {0, 1}) {
    for (const std::int64_t transpose_b : {0, 1}) {
      SampleBuilder b(fmt::format("Gemm {}{}", transpose_a, transpose_b));
      const Dim m = b.symbol("m");
      const ValueId a = b.input(DType::F32, transpose_a != 0 ? graph::Shape{20, m} : graph::Shape{m, 20});
      const ValueId w = b.weights(DType::F32, transpose_b != 0 ? Extents{37, 20} : Extents{20, 37});
      const ValueId y =
          b.add(OpKind::Gemm, {a, w, b.weights(DType::F32, {37})},
                {{"transA", transpose_a}, {"transB", transpose_b}, {"alpha", 0.5}, {"beta", 2.0}});
      const ValueId z = b.add(OpKind::Add, {b.add(OpKind::Gelu, {y}), b.input(DType::F32, {m, 37})});
      b.output(z);
      samples.push_back(b.finish(y, rows));
    }
  }
  for (const Lie lie : {Lie::Dense, Lie::Transposed, Lie::Pitched}) {
    SampleBuilder b(fmt::format("two computed operands, lie {}", static_cast<int>(lie)));
    const Dim n = b.symbol("n");
    const ValueId q = b.input(DType::F32, {2, 3, n, 16}, lie), k = b.input(DType::F32, {2, 3, 16, n}, lie);
    const ValueId y = b.add(OpKind::MatMul, {q, k});
    const ValueId z = b.add(OpKind::Mul, {y, b.number(DType::F32, 0.25)});
    b.output(z, lie == Lie::Pitched ? lie : Lie::Dense);
    samples.push_back(b.finish(y, {{0}, {1}, {7}, {16}, {17}, {33}, {128}}));
  }
  {
    SampleBuilder b("broadcast batches");
    const ValueId y = b.add(OpKind::MatMul, {b.input(DType::F32, {4, 1, 5, b.symbol("k")}),
                                             b.input(DType::F32, {3, b.symbol("k2"), 9})});
    b.output(y);
    samples.push_back(b.finish(y, {{1, 1}, {8, 8}, {70, 70}}));
  }
  for (const DType dtype : {DType::F64, DType::F16, DType::BF16, DType::I32, DType::I64}) {
    SampleBuilder b(fmt::format("of {}", name(dtype)));
    if (dtype == DType::BF16 || dtype == DType::F16 || dtype == DType::F64) {
      const ValueId y =
          b.add(OpKind::MatMul, {b.input(dtype, {b.symbol("m"), 35}), b.weights(dtype, {35, 21})});
      b.output(y);
      samples.push_back(b.finish(y, rows));
    } else {
      const ValueId y =
          b.add(OpKind::MatMul, {b.input(dtype, {b.symbol("m"), 35}), b.input(dtype, {35, 21})});
      b.output(y);
      samples.push_back(b.finish(y, {{1}, {7}, {20}}));
    }
  }
  add_convolutions(samples, {{20, 30, {1, 1}, window({1, 1}, {0, 0, 0, 0})},
                             {64, 16, {1, 1}, window({2, 2}, {0, 0, 0, 0})}});
  return samples;
}

Samples convolution_samples(const Target&) {
  Samples samples;
  add_convolutions(samples, {{3, 8, {3, 3}, window({1, 1}, {1, 1, 1, 1})},
                             {1, 5, {5, 5}, window({1, 1}, {2, 2, 2, 2})},
                             {16, 33, {3, 3}, window({2, 2}, {1, 1, 1, 1})},
                             {7, 16, {3, 2}, window({1, 2}, {0, 1, 2, 0})},
                             {8, 12, {3, 3}, window({1, 1}, {1, 1, 1, 1}, 4)},
                             {70, 17, {3, 3}, window({1, 1}, {1, 1, 1, 1})}});
  {
    SampleBuilder b("dilated, of f64");
    const ValueId x = b.input(DType::F64, {1, 3, b.symbol("h"), 12});
    const ValueId y =
        b.add(OpKind::Conv, {x, b.weights(DType::F64, {4, 3, 3, 3})}, {{"dilations", List{2, 3}}});
    b.output(y);
    samples.push_back(b.finish(y, {{5}, {20}}));
  }
  {
    SampleBuilder b("one axis");
    const ValueId x = b.input(DType::F32, {2, 6, b.symbol("w")});
    const ValueId y = b.add(OpKind::Conv, {x, b.weights(DType::F32, {10, 6, 5})}, {{"strides", List{2}}});
    b.output(y);
    samples.push_back(b.finish(y, {{5}, {16}, {301}}));
  }
  {
    SampleBuilder b("three axes");
    const ValueId x = b.input(DType::F32, {1, 2, b.symbol("d"), 5, 6});
    const ValueId y =
        b.add(OpKind::Conv, {x, b.weights(DType::F32, {9, 2, 3, 3, 3})}, {{"pads", List{1, 1, 1, 1, 1, 1}}});
    b.output(y);
    samples.push_back(b.finish(y, {{1}, {4}}));
  }
  for (const DType dtype : {DType::F32, DType::F64, DType::F16}) {
    for (const std::int64_t group : {1, 3}) {
      SampleBuilder b(fmt::format("weights of each run, {} groups of {}", group, name(dtype)));
      const ValueId x = b.input(dtype, {b.symbol("n"), 6, b.symbol("h"), 7}, Lie::ChannelsLast);
      const ValueId w = b.input(dtype, {36, 6 / group, 3, 2});
      const ValueId y = b.add(OpKind::Conv, {x, w, b.input(dtype, {36})},
                              {{"pads", List{1, 0, 1, 1}}, {"dilations", List{1, 2}}, {"group", group}});
      const ValueId z = b.add(OpKind::Relu, {y});
      b.output(z, Lie::ChannelsLast);
      samples.push_back(b.finish(y, {{0, 5}, {1, 1}, {2, 9}}));
    }
  }
  {
    SampleBuilder b("weights of each run, one axis without padding");
    const ValueId y =
        b.add(OpKind::Conv, {b.input(DType::F32, {2, 5, b.symbol("w")}), b.input(DType::F32, {3, 5, 4})});
    b.output(y);
    samples.push_back(b.finish(y, {{4}, {33}}));
  }
  for (const bool constant : {true, false}) {
    for (const auto& [group, strides, dilations] : {std::tuple<std::int64_t, List, List>{1, {2, 3}, {1, 1}},
                                                    {2, {1, 2}, {2, 1}},
                                                    {1, {1, 1}, {1, 3}}}) {
      SampleBuilder b(fmt::format("transposed, constant {}, {} groups, strides {} {}", constant, group,
                                  strides[0], strides[1]));
      const ValueId x = b.input(DType::F32, {b.symbol("n"), 6, b.symbol("h"), 5});
      const ValueId w = constant ? b.weights(DType::F32, {6, 17, 3, 2}) : b.input(DType::F32, {6, 17, 3, 2});
      const ValueId y = b.add(
          OpKind::ConvTranspose, {x, w},
          {{"group", group}, {"strides", strides}, {"dilations", dilations}, {"pads", List{1, 2, 0, 1}}});
      b.output(y);
      samples.push_back(b.finish(y, {{0, 3}, {1, 1}, {2, 7}}));
    }
  }
  {
    SampleBuilder b("transposed, three axes, more padding than window");
    const ValueId x = b.input(DType::F32, {1, 3, b.symbol("d"), 4, 3});
    const ValueId y = b.add(
        OpKind::ConvTranspose, {x, b.input(DType::F32, {3, 2, 2, 1, 2})},
        {{"strides", List{2, 1, 2}}, {"pads", List{2, 1, 0, 2, 1, 0}}, {"output_padding", List{0, 0, 1}}});
    b.output(y);
    samples.push_back(b.finish(y, {{3}, {6}}));
  }
  return samples;
}

Samples depthwise_samples(const Target&) {
  Samples samples;
  add_convolutions(samples, {{8, 8, {3, 3}, window({1, 1}, {1, 1, 1, 1}, 8)},
                             {17, 17, {3, 3}, window({2, 2}, {1, 1, 1, 1}, 17)},
                             {33, 33, {5, 5}, window({1, 1}, {2, 2, 2, 2}, 33)},
                             {260, 260, {3, 3}, window({1, 1}, {0, 0, 0, 0}, 260)}});
  return samples;
}

}  // namespace kiln::templates
