#include <fmt/format.h>

#include "ir/templates/samples.h"

namespace kiln::templates {
namespace {

using graph::Attributes;
using graph::OpKind;
using graph::ValueId;
using List = std::vector<std::int64_t>;

Attributes window(List kernel, List strides, List pads) {
  return {{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}};
}

}  // namespace

Samples pool_samples(const Target&) {
  Samples samples;
  const auto add = [&](const std::string& label, OpKind op, DType dtype, std::int64_t channels,
                       const Attributes& attributes, Lie lie) {
    SampleBuilder b(fmt::format("{} {}, {} channels of {}, lie {}", name(op), label, channels, name(dtype),
                                static_cast<int>(lie)));
    const ValueId x = b.input(dtype, {b.symbol("n"), channels, b.symbol("h"), 11}, lie);
    const ValueId y = b.add(op, {x}, attributes);
    b.output(y, lie);
    samples.push_back(b.finish(y, {{0, 6}, {1, 5}, {2, 8}, {1, 33}}));
  };
  for (const Lie lie : {Lie::Dense, Lie::ChannelsLast}) {
    for (const OpKind op : {OpKind::MaxPool, OpKind::AveragePool}) {
      for (const std::int64_t channels : {1, 3, 16, 17})
        add("2x2", op, DType::F32, channels, window({2, 2}, {2, 2}, {0, 0, 0, 0}), lie);
      add("3x3 padded", op, DType::F32, 5, window({3, 3}, {1, 2}, {1, 1, 1, 1}), lie);
      add("5x4 uneven", op, DType::F32, 8, window({5, 4}, {3, 1}, {2, 0, 1, 3}), lie);
      Attributes ceiling = window({3, 3}, {2, 2}, {0, 1, 0, 1});
      ceiling["ceil_mode"] = std::int64_t{1};
      add("rounded up", op, DType::F32, 6, ceiling, lie);
      Attributes same{
          {"kernel_shape", List{3, 2}}, {"strides", List{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}};
      add("same", op, DType::F32, 4, same, lie);
      add("f64", op, DType::F64, 3, window({2, 2}, {1, 1}, {0, 0, 0, 0}), lie);
      add("f16", op, DType::F16, 3, window({2, 2}, {1, 1}, {0, 0, 0, 0}), lie);
    }
    Attributes counted = window({3, 3}, {1, 1}, {1, 1, 1, 1});
    counted["count_include_pad"] = std::int64_t{1};
    add("counting pads", OpKind::AveragePool, DType::F32, 4, counted, lie);
    add("u8", OpKind::MaxPool, DType::U8, 9, window({3, 3}, {2, 2}, {1, 1, 1, 1}), lie);
    add("i8", OpKind::MaxPool, DType::I8, 9, window({3, 3}, {2, 2}, {1, 1, 1, 1}), lie);
    for (const std::int64_t columns_first : {0, 1}) {
      SampleBuilder b(fmt::format("places, storage order {}, lie {}", columns_first, static_cast<int>(lie)));
      const ValueId x = b.input(DType::F32, {b.symbol("n"), 5, b.symbol("h"), 11}, lie);
      Attributes attributes = window({3, 2}, {2, 1}, {1, 1, 1, 1});
      attributes["storage_order"] = columns_first;
      const std::vector<std::string> both{"y", "places"};
      const graph::NodeId pool = b.graph().add_node(OpKind::MaxPool, {x}, attributes, {}, both);
      const std::vector<ValueId> results = b.graph().node(pool).outputs;
      b.output(results[0], lie);
      b.output(results[1], lie);
      samples.push_back(b.finish(results[0], {{0, 6}, {1, 5}, {2, 8}, {1, 33}}));
    }
  }
  {
    SampleBuilder b("one axis, with an epilogue");
    const ValueId x = b.input(DType::F32, {2, 7, b.symbol("w")});
    const ValueId y = b.add(OpKind::MaxPool, {x}, {{"kernel_shape", List{3}}, {"strides", List{2}}});
    const ValueId z = b.add(OpKind::Relu, {b.add(OpKind::Add, {y, b.input(DType::F32, {7, 1})})});
    b.output(z);
    samples.push_back(b.finish(y, {{3}, {4}, {63}, {1030}}));
  }
  {
    SampleBuilder b("three axes of a window too large to unroll");
    const ValueId x = b.input(DType::F32, {1, 2, 6, 7, 8});
    const ValueId y = b.add(OpKind::AveragePool, {x}, {{"kernel_shape", List{4, 5, 5}}});
    b.output(y);
    samples.push_back(b.finish(y));
  }
  return samples;
}

}  // namespace kiln::templates
