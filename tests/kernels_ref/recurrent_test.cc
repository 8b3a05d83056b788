#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/kernels_ref/support.h"

namespace kiln::reference {
namespace {

using graph::OpKind;
using Vector = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// One sequence through one direction of an operator, by plain loops.
struct Oracle {
  OpKind op = OpKind::RNN;
  std::int64_t input = 0, hidden = 0;
  Vector w, r, b, p;  // of one direction
  bool linear_before_reset = false, input_forget = false;
  double clip = kInf;
  std::function<double(double)> f = sigmoid, g = [](double x) { return std::tanh(x); };

  std::int64_t gates() const { return op == OpKind::RNN ? 1 : op == OpKind::GRU ? 3 : 4; }
  double bounded(double x) const { return std::clamp(x, -clip, clip); }
  static double at(const Vector& v, std::int64_t i) { return v.empty() ? 0 : v[static_cast<std::size_t>(i)]; }

  // The share of x in row `row` of the gates, with its bias.
  double from_input(const Vector& x, std::int64_t row) const {
    double sum = at(b, row);
    for (std::int64_t k = 0; k < input; ++k) sum += at(w, row * input + k) * at(x, k);
    return sum;
  }
  double from_state(const Vector& h, std::int64_t row, bool biased = true) const {
    double sum = biased ? at(b, gates() * hidden + row) : 0;
    for (std::int64_t k = 0; k < hidden; ++k) sum += at(r, row * hidden + k) * at(h, k);
    return sum;
  }

  void step(const Vector& x, Vector& h, Vector& c) const {
    const Vector old = h;
    Vector z, reset;
    for (std::int64_t j = 0; j < hidden && op == OpKind::GRU; ++j) {
      z.push_back(f(bounded(from_input(x, j) + from_state(old, j))));
      reset.push_back(f(bounded(from_input(x, hidden + j) + from_state(old, hidden + j))));
    }
    Vector scaled = old;
    for (std::size_t j = 0; j < reset.size(); ++j) scaled[j] *= reset[j];
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto i = static_cast<std::size_t>(j);
      const auto gate = [&](std::int64_t index) {
        return from_input(x, index * hidden + j) + from_state(old, index * hidden + j);
      };
      switch (op) {
        case OpKind::RNN:
          h[i] = g(bounded(gate(0)));
          break;
        case OpKind::GRU: {
          const double share = linear_before_reset ? reset[i] * from_state(old, 2 * hidden + j)
                                                   : from_state(scaled, 2 * hidden + j);
          h[i] = (1 - z[i]) * g(bounded(from_input(x, 2 * hidden + j) + share)) + z[i] * old[i];
          break;
        }
        default: {
          const double in = f(bounded(gate(0) + at(p, j) * c[i]));
          const double forget = input_forget ? 1 - in : f(bounded(gate(2) + at(p, 2 * hidden + j) * c[i]));
          c[i] = forget * c[i] + in * g(bounded(gate(3)));
          h[i] = f(bounded(gate(1) + at(p, hidden + j) * c[i])) * std::tanh(c[i]);
        }
      }
    }
  }
};

struct Sizes {
  std::int64_t steps = 5, batch = 3, input = 4, hidden = 3, directions = 1;
};

struct Model {
  Sizes sizes;
  OpKind op;
  Tensor x, w, r, b, h, c, p;

  Model(OpKind kind, Sizes given, std::uint32_t seed = 3) : sizes(given), op(kind) {
    std::mt19937 generator(seed);
    const Sizes& s = sizes;
    const std::int64_t rows = (kind == OpKind::RNN ? 1 : kind == OpKind::GRU ? 3 : 4) * s.hidden;
    x = random<double>({s.steps, s.batch, s.input}, generator);
    w = random<double>({s.directions, rows, s.input}, generator);
    r = random<double>({s.directions, rows, s.hidden}, generator);
    b = random<double>({s.directions, 2 * rows}, generator);
    h = random<double>({s.directions, s.batch, s.hidden}, generator);
    c = random<double>({s.directions, s.batch, s.hidden}, generator);
    p = random<double>({s.directions, 3 * s.hidden}, generator);
  }

  std::size_t outputs() const { return op == OpKind::LSTM ? 3 : 2; }
  Inputs inputs(std::optional<Tensor> lengths = {}) const {
    Inputs list = {x, w, r, b, std::move(lengths), h};
    if (op == OpKind::LSTM) list.insert(list.end(), {c, p});
    return list;
  }
  std::vector<Tensor> run(graph::Attributes attributes = {}, std::optional<Tensor> lengths = {}) const {
    return run_all(op, inputs(std::move(lengths)), std::move(attributes), outputs());
  }

  static Vector part(const Tensor& tensor, std::int64_t index, std::int64_t count) {
    const auto all = values(tensor);
    return {all.begin() + index * count, all.begin() + (index + 1) * count};
  }

  // Y, Y_h and Y_c of every direction, the second reversed (or the only one, if `reverse`).
  std::vector<Vector> expected(
      const std::vector<std::int64_t>& lengths, bool reverse = false,
      const std::function<void(Oracle&)>& change = [](Oracle&) {}) const {
    const Sizes& s = sizes;
    Vector y(static_cast<std::size_t>(s.steps * s.directions * s.batch * s.hidden)), last_h, last_c;
    for (std::int64_t d = 0; d < s.directions; ++d) {
      Oracle oracle;
      oracle.op = op;
      oracle.input = s.input;
      oracle.hidden = s.hidden;
      oracle.w = part(w, d, w.elements() / s.directions);
      oracle.r = part(r, d, r.elements() / s.directions);
      oracle.b = part(b, d, b.elements() / s.directions);
      oracle.p = part(p, d, 3 * s.hidden);
      change(oracle);
      for (std::int64_t n = 0; n < s.batch; ++n) {
        Vector state = part(h, d * s.batch + n, s.hidden), cell = part(c, d * s.batch + n, s.hidden);
        const std::int64_t length = lengths[static_cast<std::size_t>(n)];
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t t = reverse || d == 1 ? length - 1 - i : i;
          oracle.step(part(x, t * s.batch + n, s.input), state, cell);
          const std::int64_t row = ((t * s.directions + d) * s.batch + n) * s.hidden;
          std::copy(state.begin(), state.end(), y.begin() + row);
        }
        last_h.insert(last_h.end(), state.begin(), state.end());
        last_c.insert(last_c.end(), cell.begin(), cell.end());
      }
    }
    return {y, last_h, last_c};
  }

  void expect(const std::vector<Tensor>& got, const std::vector<Vector>& want,
              double tolerance = 1e-9) const {
    const Sizes& s = sizes;
    expect_values(got[0], {s.steps, s.directions, s.batch, s.hidden}, want[0], tolerance, tolerance);
    for (std::size_t i = 1; i < outputs(); ++i) {
      expect_values(got[i], {s.directions, s.batch, s.hidden}, want[i], tolerance, tolerance);
    }
  }
};

constexpr OpKind kAll[] = {OpKind::RNN, OpKind::GRU, OpKind::LSTM};

graph::Attribute words(std::vector<std::string> list) { return list; }

TEST(Recurrent, MatchesPlainLoopsInEveryDirection) {
  for (const OpKind op : kAll) {
    for (const Sizes sizes : {Sizes{}, Sizes{.steps = 1, .batch = 1},
                              Sizes{.steps = 17, .batch = 5, .hidden = 70}, Sizes{.input = 1, .hidden = 1}}) {
      const Model model(op, sizes);
      const std::vector<std::int64_t> whole(static_cast<std::size_t>(sizes.batch), sizes.steps);
      model.expect(model.run(), model.expected(whole));
      model.expect(model.run({{"direction", std::string("reverse")}}), model.expected(whole, true));
      Sizes both = sizes;
      both.directions = 2;
      const Model wide(op, both);
      wide.expect(wide.run({{"direction", std::string("bidirectional")}}), wide.expected(whole));
    }
  }
}

// Steps beyond a sequence give 0, and its states are those after its last step: the initial ones after none.
TEST(Recurrent, SequencesEnd) {
  for (const OpKind op : kAll) {
    const Model model(op, {.directions = 2});
    const std::vector<std::int64_t> lengths = {5, 0, 2};
    const Tensor given = exact<std::int32_t>({3}, {5, 0, 2});
    model.expect(model.run({{"direction", std::string("bidirectional")}}, given), model.expected(lengths));
    EXPECT_EQ(error_of(op, model.inputs(exact<std::int32_t>({3}, {5, 6, 2})),
                       {{"direction", std::string("bidirectional")}}),
              ErrorCode::InvalidArgument);
    EXPECT_EQ(error_of(op, model.inputs(exact<std::int32_t>({3}, {5, -1, 2})),
                       {{"direction", std::string("bidirectional")}}),
              ErrorCode::InvalidArgument);
  }
}

TEST(Recurrent, BatchFirst) {
  for (const OpKind op : kAll) {
    const Model model(op, {.directions = 2});
    const graph::Attributes both = {{"direction", std::string("bidirectional")}};
    const std::vector<Tensor> want = model.run(both);
    const auto turned = [](const Tensor& tensor, std::vector<std::int64_t> perm) {
      return run(OpKind::Transpose, {tensor}, {{"perm", std::move(perm)}});
    };
    Model other = model;
    other.x = turned(model.x, {1, 0, 2});
    other.h = turned(model.h, {1, 0, 2});
    other.c = turned(model.c, {1, 0, 2});
    graph::Attributes attributes = both;
    attributes["layout"] = std::int64_t{1};
    const std::vector<Tensor> got = other.run(attributes);
    EXPECT_EQ(got[0], turned(want[0], {2, 0, 1, 3}));
    for (std::size_t i = 1; i < got.size(); ++i) EXPECT_EQ(got[i], turned(want[i], {1, 0, 2}));
  }
}

TEST(Recurrent, ClipBoundsGates) {
  for (const OpKind op : kAll) {
    const Model model(op, {});
    model.expect(model.run({{"clip", 0.25}}),
                 model.expected({5, 5, 5}, false, [](Oracle& oracle) { oracle.clip = 0.25; }));
  }
  EXPECT_EQ(error_of(OpKind::RNN, Model(OpKind::RNN, {}).inputs(), {{"clip", 0.0}}), ErrorCode::InvalidModel);
}

TEST(Recurrent, Variants) {
  const Model gru(OpKind::GRU, {}), lstm(OpKind::LSTM, {});
  gru.expect(gru.run({{"linear_before_reset", std::int64_t{1}}}),
             gru.expected({5, 5, 5}, false, [](Oracle& oracle) { oracle.linear_before_reset = true; }));
  lstm.expect(lstm.run({{"input_forget", std::int64_t{1}}}),
              lstm.expected({5, 5, 5}, false, [](Oracle& oracle) { oracle.input_forget = true; }));
}

TEST(Recurrent, Activations) {
  const struct {
    std::string name;
    bool alpha, beta;
    std::function<double(double, double, double)> function;
  } rows[] = {
      {"Affine", true, true, [](double x, double a, double b) { return a * x + b; }},
      {"relu", false, false, [](double x, double, double) { return std::max(x, 0.0); }},
      {"LeakyRelu", true, false, [](double x, double a, double) { return x < 0 ? a * x : x; }},
      {"ThresholdedRelu", true, false, [](double x, double a, double) { return x > a ? x : 0; }},
      {"Tanh", false, false, [](double x, double, double) { return std::tanh(x); }},
      {"ScaledTanh", true, true, [](double x, double a, double b) { return a * std::tanh(b * x); }},
      {"SIGMOID", false, false, [](double x, double, double) { return sigmoid(x); }},
      {"HardSigmoid", true, true,
       [](double x, double a, double b) { return std::clamp(a * x + b, 0.0, 1.0); }},
      {"Elu", true, false, [](double x, double a, double) { return x < 0 ? a * (std::exp(x) - 1) : x; }},
      {"Softsign", false, false, [](double x, double, double) { return x / (1 + std::abs(x)); }},
      {"Softplus", false, false, [](double x, double, double) { return std::log(1 + std::exp(x)); }},
  };
  const Model model(OpKind::GRU, {});
  for (const auto& row : rows) {
    // Each takes the next alpha and beta of the lists only if it has one.
    const double alpha = 0.3, beta = 0.2;
    const auto want = model.expected({5, 5, 5}, false, [&](Oracle& oracle) {
      oracle.f = [&](double x) { return std::clamp(0.4 * x + 0.6, 0.0, 1.0); };
      oracle.g = [&](double x) { return row.function(x, alpha, beta); };
    });
    Vector alphas = {0.4}, betas = {0.6};
    if (row.alpha) alphas.push_back(alpha);
    if (row.beta) betas.push_back(beta);
    model.expect(model.run({{"activations", words({"HardSigmoid", row.name})},
                            {"activation_alpha", alphas},
                            {"activation_beta", betas}}),
                 want, 1e-10);
  }
  EXPECT_EQ(error_of(OpKind::GRU, model.inputs(), {{"activations", words({"Sigmoid", "Cosine"})}}),
            ErrorCode::InvalidModel);
  EXPECT_EQ(error_of(OpKind::GRU, model.inputs(), {{"activations", words({"Sigmoid"})}}),
            ErrorCode::InvalidModel);
}

TEST(Recurrent, AbsentOperandsAreZero) {
  for (const OpKind op : kAll) {
    Model model(op, {});
    for (Tensor* tensor : {&model.b, &model.h, &model.c, &model.p})
      *tensor = Tensor(DType::F64, tensor->extents());
    const std::vector<Tensor> want = model.run();
    const std::vector<Tensor> got = run_all(op, {model.x, model.w, model.r}, {}, model.outputs());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]);
  }
}

// Halves are computed in f32 and rounded once; NaN stays within its own sequence.
TEST(Recurrent, HalvesAndNan) {
  for (const OpKind op : kAll) {
    Model wide(op, {}), narrow = wide;
    const auto cast = [](const Tensor& tensor, DType dtype) {
      return run(OpKind::Cast, {tensor}, {{"to", static_cast<std::int64_t>(dtype)}});
    };
    for (const auto& member : {&Model::x, &Model::w, &Model::r, &Model::b, &Model::h, &Model::c, &Model::p}) {
      narrow.*member = cast(wide.*member, DType::F16);
      wide.*member = cast(narrow.*member, DType::F32);
    }
    const std::vector<Tensor> got = narrow.run(), want = wide.run();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], cast(want[i], DType::F16));
    std::mt19937 generator(1);
    Tensor poisoned = random<float>({5, 3, 4}, generator);
    poisoned.as_mutable<float>()[4] = std::numeric_limits<float>::quiet_NaN();  // step 0 of sequence 1
    wide.x = poisoned;
    const std::vector<double> last = values(wide.run()[1]);
    for (std::size_t i = 0; i < last.size(); ++i) EXPECT_EQ(std::isnan(last[i]), i / 3 == 1) << i;
  }
}

TEST(Recurrent, EmptyAndBadShapes) {
  for (const OpKind op : kAll) {
    const Model none(op, {.steps = 0});
    none.expect(none.run(), none.expected({0, 0, 0}));
    const Model nobody(op, {.batch = 0});
    EXPECT_EQ(nobody.run()[0].extents(), (Extents{5, 1, 0, 3}));
    Inputs inputs = Model(op, {}).inputs();
    inputs[1] = Tensor(DType::F64, {1, 5, 4});
    EXPECT_EQ(error_of(op, inputs), ErrorCode::ShapeMismatch);
    EXPECT_EQ(error_of(op, Model(op, {}).inputs(), {{"hidden_size", std::int64_t{4}}}),
              ErrorCode::ShapeMismatch);
  }
}

// Weights that quantise exactly, and rows whose extremes make every value a level of their own: the products
// are those of LSTM.
TEST(DynamicQuantizeLstm, IsLstmWhereQuantisingIsExact) {
  const std::int64_t hidden = 2, input = 4;
  std::mt19937 generator(5);
  std::uniform_int_distribution<int> level(-128, 127);
  Tensor w(DType::I8, {1, input, 4 * hidden}), r(DType::I8, {1, hidden, 4 * hidden});
  for (Tensor* tensor : {&w, &r}) {
    for (std::int8_t& x : tensor->as_mutable<std::int8_t>()) x = static_cast<std::int8_t>(level(generator));
  }
  const Tensor x = tensor({1, 1, input}, {-100, 155, 3, -7});  // a step of 1, zero point 100
  const Tensor h = tensor({1, 1, hidden}, {0, 0});
  const Tensor scale = tensor({1, 4 * hidden}, {0.001, 0.002, 0.003, 0.001, 0.002, 0.004, 0.001, 0.002});
  const Tensor zero = exact<std::int8_t>({1, 4 * hidden}, {1, -2, 3, 0, 5, -6, 7, 8});
  Tensor wide_w(DType::F32, {1, 4 * hidden, input}), wide_r(DType::F32, {1, 4 * hidden, hidden});
  for (std::int64_t j = 0; j < 4 * hidden; ++j) {
    const auto column = static_cast<std::size_t>(j);
    for (std::int64_t k = 0; k < input; ++k) {
      wide_w.as_mutable<float>()[static_cast<std::size_t>(j * input + k)] =
          static_cast<float>(w.as<std::int8_t>()[static_cast<std::size_t>(k * 4 * hidden + j)] -
                             zero.as<std::int8_t>()[column]) *
          scale.as<float>()[column];
    }
  }
  const auto got =
      run_all(OpKind::DynamicQuantizeLSTM, {x, w, r, {}, {}, h, {}, {}, scale, zero, scale, zero}, {}, 3);
  const auto want = run_all(OpKind::LSTM, {x, wide_w, wide_r, {}, {}, h}, {}, 3);
  for (std::size_t i = 0; i < 3; ++i) expect_near(values(got[i]), values(want[i]), 1e-5, 1e-6);
}

}  // namespace
}  // namespace kiln::reference
