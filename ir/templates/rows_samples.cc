#include <fmt/format.h>

#include "ir/templates/samples.h"

namespace kiln::templates {
namespace {

using graph::Attributes;
using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

constexpr OpKind kReductions[] = {OpKind::ReduceSum,       OpKind::ReduceMean,      OpKind::ReduceMax,
                                  OpKind::ReduceMin,       OpKind::ReduceL1,        OpKind::ReduceL2,
                                  OpKind::ReduceLogSumExp, OpKind::ReduceSumSquare, OpKind::ReduceProd};

// Beyond what a sum in their own type gives.
void add_integer_reductions(Samples& samples) {
  for (const OpKind op : {OpKind::ReduceMean, OpKind::ReduceL1, OpKind::ReduceL2, OpKind::ReduceLogSum,
                          OpKind::ReduceLogSumExp}) {
    for (const DType dtype : {DType::I32, DType::U64}) {
      for (const std::int64_t axis : {0, 1}) {
        SampleBuilder b(fmt::format("{} of {} along {}", name(op), name(dtype), axis));
        ValueId x = b.input(dtype, {b.symbol("n"), b.symbol("m")});
        // Logarithms of negative sums are no integers.
        if (op == OpKind::ReduceLogSum && is_signed_integer(dtype)) x = b.add(OpKind::Abs, {x});
        const ValueId y = b.add(op, {x, b.integers({axis})});
        b.output(y);
        samples.push_back(b.finish(y, {{1, 1}, {2, 7}, {17, 33}, {3, 513}}));
        samples.back().special_numbers = op == OpKind::ReduceMean || op == OpKind::ReduceL1;
      }
    }
  }
}

}  // namespace

Samples rows_samples(const Target&) {
  Samples samples;
  add_integer_reductions(samples);
  const std::vector<std::vector<std::int64_t>> rows{
      {0, 7}, {1, 1}, {3, 1}, {2, 15}, {5, 16}, {1, 17}, {2, 511}, {3, 512}, {1, 513}, {2, 4099}, {1, 16385}};
  for (const OpKind op : {OpKind::Softmax, OpKind::LogSoftmax}) {
    for (const DType dtype : {DType::F32, DType::F16, DType::F64}) {
      SampleBuilder b(fmt::format("{} of {}", name(op), name(dtype)));
      const ValueId y = b.add(op, {b.input(dtype, {b.symbol("n"), b.symbol("m")})});
      b.output(y);
      samples.push_back(b.finish(y, rows));
    }
    for (const std::int64_t width : {1, 7, 1000, 4097}) {
      SampleBuilder b(fmt::format("{} of {}", name(op), width));
      const ValueId y = b.add(op, {b.input(DType::F32, {b.symbol("n"), width})});
      b.output(y);
      samples.push_back(b.finish(y, {{0}, {1}, {5}}));
    }
    {
      SampleBuilder b(fmt::format("{} of one element repeated", name(op)));
      const ValueId y =
          b.add(op, {b.input(DType::F32, {b.symbol("n"), 21}, Lie::Repeated)}, {{"axis", std::int64_t{0}}});
      b.output(y);
      samples.push_back(b.finish(y, {{0}, {1}, {5}}));
    }
    for (const std::int64_t axis : {0, 1, 2}) {
      for (const Lie lie : {Lie::Dense, Lie::Transposed, Lie::Pitched}) {
        SampleBuilder b(fmt::format("{} along {}, lie {}", name(op), axis, static_cast<int>(lie)));
        const ValueId y = b.add(op, {b.input(DType::F32, {3, b.symbol("n"), 21}, lie)}, {{"axis", axis}});
        b.output(y, lie == Lie::Transposed ? Lie::Dense : lie);
        samples.push_back(b.finish(y, {{1}, {2}, {63}, {64}, {65}, {130}}));
      }
    }
  }
  for (const OpKind op : kReductions) {
    for (const std::int64_t axis : {0, 1}) {
      SampleBuilder b(fmt::format("{} along {}", name(op), axis));
      const ValueId y = b.add(op, {b.input(DType::F32, {b.symbol("n"), b.symbol("m")}), b.integers({axis})});
      b.output(y);
      samples.push_back(b.finish(y, {{1, 1}, {1, 7}, {7, 1}, {3, 512}, {65, 33}, {513, 2}}));
      samples.back().special_numbers = op != OpKind::ReduceProd;
    }
    SampleBuilder b(fmt::format("{} over all", name(op)));
    const ValueId x = b.input(DType::F32, {2, 3, 5, 7}, Lie::ChannelsLast);
    const ValueId y = b.add(op, {x, b.integers({2, 3})}, {{"keepdims", std::int64_t{0}}});
    b.output(y);
    samples.push_back(b.finish(y));
    samples.back().special_numbers = op != OpKind::ReduceProd;
  }
  for (const DType dtype : {DType::I32, DType::I64, DType::F64, DType::F16, DType::BF16}) {
    for (const OpKind op : {OpKind::ReduceSum, OpKind::ReduceMax, OpKind::ReduceMin}) {
      SampleBuilder b(fmt::format("{} of {}", name(op), name(dtype)));
      const ValueId y = b.add(op, {b.input(dtype, {5, b.symbol("n")}), b.integers({1})});
      b.output(y);
      samples.push_back(b.finish(y, {{0}, {1}, {31}, {200}}));
    }
  }
  for (const DType dtype : {DType::F32, DType::F16}) {
    for (const std::int64_t width : {1, 8, 15, 384, 5000}) {
      SampleBuilder b(fmt::format("LayerNormalization of {} x {}", width, name(dtype)));
      const ValueId x = b.input(dtype, {b.symbol("n"), width});
      const ValueId y =
          b.add(OpKind::LayerNormalization, {x, b.input(dtype, {width}), b.input(dtype, {width})});
      b.output(y);
      samples.push_back(b.finish(y, {{0}, {1}, {5}}));
    }
  }
  for (const std::int64_t width : {1, 9}) {
    // Results of every kind: of the row, one a row with and without its axis.
    SampleBuilder b(fmt::format("a reduction of {} and what it is made of", width));
    const ValueId x = b.add(OpKind::Exp, {b.input(DType::F32, {b.symbol("n"), width})});
    const ValueId kept = b.add(OpKind::ReduceMax, {x, b.integers({1})});
    const ValueId dropped = b.add(OpKind::ReduceSum, {x, b.integers({1})}, {{"keepdims", std::int64_t{0}}});
    b.output(x);
    b.output(kept);
    b.output(dropped);
    samples.push_back(b.finish(kept, {{0}, {1}, {5}}));
  }
  {
    SampleBuilder b("RMSNormalization");
    const ValueId y = b.add(OpKind::RMSNormalization,
                            {b.input(DType::F32, {3, b.symbol("n"), 40}), b.input(DType::F32, {40})});
    b.output(y);
    samples.push_back(b.finish(y, {{1}, {7}}));
  }
  {
    SampleBuilder b("InstanceNormalization");
    const ValueId y =
        b.add(OpKind::InstanceNormalization, {b.input(DType::F32, {2, 3, b.symbol("h"), 9}, Lie::Dense),
                                              b.input(DType::F32, {3}), b.input(DType::F32, {3})});
    b.output(y);
    samples.push_back(b.finish(y, {{1}, {7}, {64}}));
  }
  {
    SampleBuilder b("several reductions with prologue and epilogue");
    const Dim n = b.symbol("n"), m = b.symbol("m");
    const ValueId x = b.add(OpKind::Add, {b.input(DType::F32, {n, m}), b.input(DType::F32, {m})});
    const ValueId mean = b.add(OpKind::ReduceMean, {x, b.integers({-1})});
    const ValueId centred = b.add(OpKind::Sub, {x, mean});
    const ValueId variance =
        b.add(OpKind::ReduceMean, {b.add(OpKind::Mul, {centred, centred}), b.integers({-1})});
    const ValueId y =
        b.add(OpKind::Div,
              {centred, b.add(OpKind::Sqrt, {b.add(OpKind::Add, {variance, b.number(DType::F32, 1e-3)})})});
    b.output(y);
    b.output(x);
    samples.push_back(b.finish(mean, rows));
  }
  {
    SampleBuilder b("a masked softmax");
    const Dim n = b.symbol("n");
    const ValueId x = b.input(DType::F32, {2, 3, n, n});
    const ValueId scaled = b.add(OpKind::Mul, {x, b.number(DType::F32, 0.125)});
    const ValueId y =
        b.add(OpKind::Softmax, {b.add(OpKind::Add, {scaled, b.input(DType::F32, {2, 1, 1, n})})});
    b.output(y);
    samples.push_back(b.finish(y, {{1}, {17}, {128}}));
  }
  return samples;
}

Samples scan_samples(const Target&) {
  Samples samples;
  for (const DType dtype : {DType::I32, DType::I64, DType::U64, DType::F16, DType::F32, DType::F64}) {
    for (const OpKind op : {OpKind::CumSum, OpKind::CumProd}) {
      for (const std::int64_t axis : {0, 1, 2}) {
        const auto flag = static_cast<std::int64_t>(axis + static_cast<std::int64_t>(op) % 2);
        SampleBuilder b(fmt::format("{} of {} along axis {}", name(op), name(dtype), axis));
        const ValueId x = b.input(dtype, {3, b.symbol("n"), 17}, axis == 1 ? Lie::Transposed : Lie::Dense);
        const ValueId y =
            b.add(op, {x, b.integers({axis})}, {{"reverse", flag & 1}, {"exclusive", flag >> 1}});
        b.output(y);
        samples.push_back(b.finish(y, {{0}, {1}, {16}, {37}}));
        // A product that has become 0 meets an infinity or does not, as the order has it.
        samples.back().special_numbers = op == OpKind::CumSum || !is_float(dtype);
      }
    }
  }
  SampleBuilder b("CumSum of a long row");
  const ValueId y = b.add(OpKind::CumSum, {b.input(DType::F32, {b.symbol("n")}), b.integers({-1})});
  b.output(y);
  samples.push_back(b.finish(y, {{255}, {256}, {257}, {1000}}));
  return samples;
}

}  // namespace kiln::templates
