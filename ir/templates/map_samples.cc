#include <array>

#include <fmt/format.h>
#include <kiln/error.h>

#include "ir/graph/contract.h"
#include "ir/templates/node_emitter.h"
#include "ir/templates/samples.h"

namespace kiln::templates {
namespace {

using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::ValueId;

constexpr std::array kDtypes = {DType::I1,   DType::I8,  DType::I16, DType::I32, DType::I64,
                                DType::U8,   DType::U16, DType::U32, DType::U64, DType::F16,
                                DType::BF16, DType::F32, DType::F64};

// Every elementwise operator on its own that takes `count` operands of `dtype` and needs no attribute, some
// in each sample.
void add_single_operators(Samples& samples, DType dtype, int count) {
  constexpr std::size_t kPerSample = 12;
  std::vector<OpKind> kinds;
  for (const graph::OpContract& contract : graph::contracts()) {
    if (contract.fusion == graph::FusionClass::Elementwise) kinds.push_back(contract.kind);
  }
  std::size_t next = 0;
  while (next < kinds.size()) {
    SampleBuilder b(
        fmt::format("{} operands of {}, operators from {}", count, name(dtype), name(kinds[next])));
    std::vector<ValueId> operands;
    for (int i = 0; i < count; ++i) operands.push_back(b.input(dtype, {3, 37}));
    std::size_t taken = 0;
    ValueId last;
    for (; next < kinds.size() && taken < kPerSample; ++next) {
      // Whether the operator takes these operands shows on a copy: a refused one must leave nothing behind.
      graph::Graph attempt = b.graph();
      try {
        const ValueId result = attempt.add(kinds[next], operands);
        if (why_not_emittable(attempt, attempt.node(attempt.value(result).producer))) continue;
      } catch (const Error&) {
        continue;
      }
      last = b.add(kinds[next], operands);
      b.output(last);
      ++taken;
    }
    if (taken > 0) samples.push_back(b.finish(last));
  }
}

// (x + x) * c with a literal, or its like.
ValueId arithmetic(SampleBuilder& b, ValueId x) {
  const DType dtype = b.graph().value(x).dtype;
  if (dtype == DType::I1) return b.add(OpKind::Xor, {x, b.add(OpKind::Not, {x})});
  const ValueId sum = b.add(OpKind::Add, {x, x});
  return b.add(OpKind::Mul, {sum, x});
}

}  // namespace

Samples map_samples(const Target&) {
  Samples samples;
  for (const DType dtype : kDtypes) {
    for (const int count : {1, 2}) add_single_operators(samples, dtype, count);
    SampleBuilder b(fmt::format("one axis of {}", name(dtype)));
    const ValueId y = arithmetic(b, b.input(dtype, {b.symbol("n")}));
    b.output(y);
    samples.push_back(b.finish(
        y, {{0}, {1}, {2}, {7}, {8}, {9}, {31}, {63}, {64}, {65}, {127}, {4095}, {4096}, {4097}, {10007}}));
  }
  for (const std::int64_t extent : {1, 7, 8, 16, 17, 64, 4095, 4096, 4097}) {
    SampleBuilder b(fmt::format("{} elements", extent));
    const ValueId y = b.add(OpKind::Relu, {b.input(DType::F32, {extent})});
    b.output(y);
    samples.push_back(b.finish(y));
  }
  {
    SampleBuilder b("a scalar");
    const ValueId y = b.add(OpKind::Exp, {b.input(DType::F32, {})});
    b.output(y);
    samples.push_back(b.finish(y));
  }
  {
    SampleBuilder b("broadcasts");
    const Dim n = b.symbol("n");
    const ValueId x = b.input(DType::F32, {n, 3, 7});
    ValueId y = b.add(OpKind::Add, {x, b.input(DType::F32, {7})});
    y = b.add(OpKind::Mul, {y, b.input(DType::F32, {3, 1})});
    y = b.add(OpKind::Sub, {y, b.input(DType::F32, {n, 1, 1})});
    y = b.add(OpKind::Max, {y, b.input(DType::F32, {})});
    b.output(y);
    samples.push_back(b.finish(y, {{0}, {1}, {2}, {13}, {200}}));
  }
  {
    SampleBuilder b("an extent that may be 1 broadcasts");
    const ValueId y = b.add(
        OpKind::Add, {b.input(DType::F32, {5, b.symbol("n")}), b.input(DType::F32, {5, b.symbol("m")})});
    b.output(y);
    samples.push_back(b.finish(y, {{1, 1}, {1, 9}, {9, 1}, {17, 17}}));
  }
  // Everything in every order.
  for (const Lie in :
       {Lie::Dense, Lie::ChannelsLast, Lie::Transposed, Lie::Pitched, Lie::Reversed, Lie::Repeated}) {
    for (const Lie out : {Lie::Dense, Lie::ChannelsLast, Lie::Pitched}) {
      for (const DType dtype : {DType::F32, DType::U8}) {
        SampleBuilder b(
            fmt::format("lies {} to {} of {}", static_cast<int>(in), static_cast<int>(out), name(dtype)));
        const Dim n = b.symbol("n");
        const ValueId y = arithmetic(b, b.input(dtype, {2, 5, n, 3}, in));
        b.output(y, out);
        samples.push_back(b.finish(y, {{0}, {1}, {8}, {17}}));
      }
    }
  }
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::I8}) {
    SampleBuilder b(fmt::format("transposed {}", name(dtype)));
    const ValueId y =
        b.add(OpKind::Identity, {b.input(dtype, {b.symbol("n"), b.symbol("m")}, Lie::Transposed)});
    b.output(y);
    samples.push_back(
        b.finish(y, {{1, 1}, {1, 40}, {40, 1}, {7, 9}, {16, 16}, {31, 65}, {64, 64}, {130, 67}}));
  }
  for (const DType from : kDtypes) {
    SampleBuilder b(fmt::format("casts of {}", name(from)));
    const ValueId x = b.input(from, {67});
    ValueId y;
    for (const DType to : kDtypes) {
      y = b.add(OpKind::Cast, {x}, {{"to", static_cast<std::int64_t>(to)}});
      b.output(y);
    }
    samples.push_back(b.finish(y));
  }
  {
    SampleBuilder b("operators with literals and attributes");
    const ValueId x = b.input(DType::F32, {b.symbol("n")});
    const ValueId low = b.number(DType::F32, -0.25), high = b.number(DType::F32, 0.5);
    std::vector<ValueId> results{
        b.add(OpKind::Clip, {x, low, high}),
        b.add(OpKind::Clip, {x, ValueId::none(), high}),
        b.add(OpKind::Where, {b.add(OpKind::Less, {x, low}), high, x}),
        b.add(OpKind::Pow, {x, b.number(DType::F32, 2)}),
        b.add(OpKind::Pow, {x, b.number(DType::F32, -1)}),
        b.add(OpKind::Gelu, {x}, {{"approximate", std::string("tanh")}}),
        b.add(OpKind::IsInf, {x}, {{"detect_negative", std::int64_t{0}}}),
        b.add(OpKind::Mod, {x, high}, {{"fmod", std::int64_t{1}}}),
        b.add(OpKind::LeakyRelu, {x}, {{"alpha", 0.2}}),
        b.add(OpKind::Elu, {x}, {{"alpha", 0.7}}),
        b.add(OpKind::Min, {x, low, high}),
        b.add(OpKind::Mean, {x, low, high}),
    };
    for (const ValueId result : results) b.output(result);
    samples.push_back(b.finish(results.back(), {{1}, {100}}));
  }
  return samples;
}

}  // namespace kiln::templates
