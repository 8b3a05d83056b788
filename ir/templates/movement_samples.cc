#include <fmt/format.h>

#include "ir/templates/samples.h"

namespace kiln::templates {
namespace {

using graph::Attributes;
using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

constexpr DType kMoved[] = {DType::I1, DType::U8, DType::I16, DType::I64, DType::F16, DType::F32};

}  // namespace

Samples gather_samples(const Target&) {
  Samples samples;
  for (const DType dtype : kMoved) {
    for (const DType index : {DType::I32, DType::I64}) {
      SampleBuilder b(fmt::format("rows of {} by {}", name(dtype), name(index)));
      const ValueId x = b.input(dtype, {11, 19});
      const ValueId i = b.indices(index, {b.symbol("n")}, x, 0);
      const ValueId y = b.add(OpKind::Gather, {x, i});
      b.output(y);
      samples.push_back(b.finish(y, {{0}, {1}, {2}, {214}, {215}, {216}, {431}}));
    }
  }
  for (const std::int64_t axis : {0, 1, 2}) {
    for (const Lie lie : {Lie::Dense, Lie::Transposed, Lie::Pitched, Lie::Reversed}) {
      SampleBuilder b(fmt::format("axis {} of lie {}", axis, static_cast<int>(lie)));
      const Dim n = b.symbol("n");
      const ValueId x = b.input(DType::F32, {3, n, 17}, lie);
      const ValueId i = b.indices(DType::I64, {2, 5}, x, static_cast<std::size_t>(axis), lie);
      const ValueId y = b.add(OpKind::Gather, {x, i}, {{"axis", axis}});
      b.output(y, lie == Lie::Pitched ? Lie::Pitched : Lie::Dense);
      samples.push_back(b.finish(y, {{1}, {2}, {37}}));
    }
  }
  {
    SampleBuilder b("a scalar index");
    const ValueId x = b.input(DType::F32, {5, b.symbol("n")});
    const ValueId y = b.add(OpKind::Gather, {x, b.indices(DType::I64, {}, x, 0)});
    b.output(y);
    samples.push_back(b.finish(y, {{0}, {1}, {4096}, {5001}}));
  }
  {
    SampleBuilder b("with an epilogue");
    const Dim n = b.symbol("n");
    const ValueId x = b.input(DType::F32, {29, 384});
    const ValueId rows = b.add(OpKind::Gather, {x, b.indices(DType::I64, {2, n}, x, 0)});
    const ValueId sum = b.add(OpKind::Add, {rows, b.input(DType::F32, {2, n, 384})});
    const ValueId y = b.add(OpKind::Mul, {sum, b.input(DType::F32, {384})});
    b.output(rows);
    b.output(y);
    samples.push_back(b.finish(rows, {{0}, {1}, {17}}));
  }
  return samples;
}

Samples pick_samples(const Target&) {
  Samples samples;
  for (const DType dtype : kMoved) {
    for (const std::int64_t axis : {0, 1, 2}) {
      SampleBuilder b(fmt::format("elements of {} along axis {}", name(dtype), axis));
      const Dim n = b.symbol("n");
      const ValueId x = b.input(dtype, {7, 13, n});
      const DType index = axis == 1 ? DType::I32 : DType::I64;
      const ValueId i = b.indices(index, {axis == 0 ? 9 : 4, 11, axis == 2 ? Dim(5) : n}, x,
                                  static_cast<std::size_t>(axis));
      const ValueId y = b.add(OpKind::GatherElements, {x, i}, {{"axis", axis}});
      b.output(y);
      samples.push_back(b.finish(y, {{1}, {2}, {33}, {1025}}));
    }
  }
  for (const Lie lie : {Lie::Dense, Lie::Transposed, Lie::Pitched, Lie::Reversed}) {
    for (const std::int64_t axis : {0, 1, 2}) {
      SampleBuilder b(fmt::format("elements along axis {} of lie {}", axis, static_cast<int>(lie)));
      const ValueId x = b.input(DType::F32, {6, 5, 17}, lie);
      const ValueId i = b.indices(DType::I64, {6, 5, 17}, x, static_cast<std::size_t>(axis), lie);
      const ValueId y = b.add(OpKind::GatherElements, {x, i}, {{"axis", axis}});
      b.output(y, lie == Lie::Pitched ? Lie::Pitched : Lie::Dense);
      samples.push_back(b.finish(y));
    }
    for (const std::int64_t depth : {1, 2, 3}) {
      SampleBuilder b(fmt::format("{} indices a row, lie {}", depth, static_cast<int>(lie)));
      const ValueId x = b.input(DType::F32, {11, 11, 11}, lie);
      const ValueId i = b.indices(DType::I64, {2, b.symbol("n"), depth}, x, 0);
      const ValueId y = b.add(OpKind::GatherND, {x, i});
      b.output(y);
      samples.push_back(b.finish(y, {{0}, {1}, {19}, {513}}));
    }
  }
  {
    SampleBuilder b("rows of a batch, with an epilogue");
    const Dim n = b.symbol("n");
    const ValueId x = b.input(DType::F32, {n, 29, 3, 40});
    const ValueId i = b.indices(DType::I64, {n, 6, 1}, x, 1);
    const ValueId y = b.add(OpKind::GatherND, {x, i}, {{"batch_dims", std::int64_t{1}}});
    const ValueId z = b.add(OpKind::Mul, {y, b.input(DType::F32, {40})});
    b.output(y);
    b.output(z);
    samples.push_back(b.finish(y, {{0}, {1}, {7}}));
  }
  return samples;
}

Samples scatter_samples(const Target&) {
  Samples samples;
  const auto finish = [&](SampleBuilder& b, OpKind op, std::vector<ValueId> operands, const char* reduction,
                          Attributes attributes, Lie lie,
                          const std::vector<std::vector<std::int64_t>>& sizes) {
    attributes["reduction"] = std::string(reduction);
    const ValueId y = b.add(op, std::move(operands), std::move(attributes));
    b.output(y, lie);
    samples.push_back(b.finish(y, sizes));
  };
  for (const DType dtype : kMoved) {
    for (const char* reduction : {"none", "add", "mul", "max", "min"}) {
      if (dtype == DType::I1 && reduction != std::string_view("none")) continue;
      SampleBuilder b(fmt::format("rows of {}, {}", name(dtype), reduction));
      const Dim n = b.symbol("n");
      const ValueId x = b.input(dtype, {11, 7});
      const ValueId i = b.indices(DType::I64, {n, 1}, x, 0);
      finish(b, OpKind::ScatterND, {x, i, b.input(dtype, {n, 7})}, reduction, {}, Lie::Dense,
             {{0}, {1}, {5}, {40}});
    }
  }
  for (const Lie lie : {Lie::Dense, Lie::Transposed, Lie::Pitched}) {
    for (const char* reduction : {"none", "add"}) {
      for (const std::int64_t axis : {0, 1, 2}) {
        SampleBuilder b(fmt::format("elements, axis {}, {}, lie {}", axis, reduction, static_cast<int>(lie)));
        const Dim n = b.symbol("n");
        const ValueId x = b.input(DType::F32, {6, 9, n}, lie);
        const Shape chosen{axis == 0 ? 12 : 5, 8, axis == 2 ? Dim(6) : n};
        const ValueId i = b.indices(DType::I32, chosen, x, static_cast<std::size_t>(axis), lie);
        finish(b, OpKind::ScatterElements, {x, i, b.input(DType::F32, chosen, lie)}, reduction,
               {{"axis", axis}}, lie, {{1}, {3}, {37}, {1030}});
      }
      for (const std::int64_t depth : {2, 3}) {
        SampleBuilder b(fmt::format("{} indices a row, {}, lie {}", depth, reduction, static_cast<int>(lie)));
        const Dim n = b.symbol("n");
        const ValueId x = b.input(DType::F32, {5, 5, 5, 19}, lie);
        const ValueId i = b.indices(DType::I64, {2, n, depth}, x, 0);
        const Shape updates = depth == 2 ? Shape{2, n, 5, 19} : Shape{2, n, 19};
        finish(b, OpKind::ScatterND, {x, i, b.input(DType::F32, updates)}, reduction, {}, lie,
               {{0}, {1}, {23}});
      }
    }
  }
  return samples;
}

Samples pad_samples(const Target&) {
  Samples samples;
  const auto add = [&](const std::string& label, DType dtype, std::vector<std::int64_t> pads,
                       const char* mode, Lie in, Lie out) {
    SampleBuilder b(label);
    const ValueId x = b.input(dtype, {2, 3, b.symbol("n"), 5}, in);
    const ValueId y = b.add(OpKind::Pad, {x, b.integers(std::move(pads))}, {{"mode", std::string(mode)}});
    b.output(y, out);
    samples.push_back(b.finish(y, {{1}, {2}, {16}, {61}}));
  };
  for (const char* mode : {"constant", "edge", "reflect", "wrap"}) {
    for (const Lie lie : {Lie::Dense, Lie::ChannelsLast, Lie::Pitched}) {
      const std::string label = fmt::format("{} borders, lie {}", mode, static_cast<int>(lie));
      add(label, DType::F32, {0, 0, 1, 2, 0, 0, 3, 1}, mode, lie, lie);
      add(label + ", all axes", DType::F32, {1, 1, 1, 1, 1, 1, 1, 1}, mode, lie, Lie::Dense);
      add(label + ", one cropped", DType::F32, {0, -1, 0, -2, 0, 1, 0, 2}, mode, lie, lie);
      add(label + ", far beyond", DType::F32, {0, 0, 20, 0, 0, 0, 0, 13}, mode, lie, lie);
    }
  }
  for (const DType dtype : kMoved) {
    add(fmt::format("constant {}", name(dtype)), dtype, {0, 0, 1, 2, 0, 0, 3, 1}, "constant", Lie::Dense,
        Lie::Dense);
  }
  {
    SampleBuilder b("a value, and an epilogue");
    const Dim n = b.symbol("n");
    const ValueId x = b.input(DType::F32, {n, 33});
    const ValueId y = b.add(OpKind::Pad, {x, b.integers({2, 0, 0, 31}), b.number(DType::F32, -1.5)});
    const ValueId z = b.add(OpKind::Mul, {b.add(OpKind::Relu, {y}), b.input(DType::F32, {64})});
    b.output(z);
    samples.push_back(b.finish(y, {{0}, {1}, {62}, {63}, {200}}));
  }
  return samples;
}

Samples resize_samples(const Target&) {
  Samples samples;
  for (const Lie lie : {Lie::Dense, Lie::ChannelsLast, Lie::Pitched}) {
    for (const DType dtype : {DType::F32, DType::U8, DType::F16}) {
      SampleBuilder b(fmt::format("{} by 2 and 3, lie {}", name(dtype), static_cast<int>(lie)));
      const ValueId x = b.input(dtype, {2, 19, b.symbol("n"), 5}, lie);
      const ValueId scales =
          b.graph().add_constant(Tensor::from<float>(DType::F32, {4}, std::vector<float>{1, 1, 2, 3}));
      const ValueId y = b.add(OpKind::Resize, {x, ValueId::none(), scales});
      const ValueId z = b.add(OpKind::Identity, {y});
      b.output(z, lie);
      samples.push_back(b.finish(y, {{0}, {1}, {7}, {40}}));
    }
  }
  {
    SampleBuilder b("sizes");
    const ValueId x = b.input(DType::F32, {1, 3, 4, 5});
    const ValueId y = b.add(OpKind::Resize, {x, ValueId::none(), ValueId::none(), b.integers({1, 3, 8, 25})});
    b.output(y);
    samples.push_back(b.finish(y));
  }
  return samples;
}

Samples range_samples(const Target&) {
  Samples samples;
  for (const DType dtype : {DType::I64, DType::F16, DType::F32, DType::F64}) {
    SampleBuilder b(fmt::format("of {}", name(dtype)));
    const ValueId y =
        b.add(OpKind::Range, {b.number(dtype, -1.5), b.number(dtype, 900), b.number(dtype, 0.75 * 4)});
    b.output(y);
    samples.push_back(b.finish(y));
  }
  SampleBuilder b("up to a size");
  const Dim n = b.symbol("n");
  const ValueId y = b.add(OpKind::Range, {b.size(n + Dim(-7)), b.size(n * Dim(3)), b.integers({2})});
  b.output(y);
  samples.push_back(b.finish(y, {{0}, {1}, {2}, {4096}, {5001}}));
  return samples;
}

}  // namespace kiln::templates
