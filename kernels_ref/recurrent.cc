// RNN, GRU and LSTM. The input's share of every gate is one product for all steps; each step then multiplies
// the state. Activations are computed in f64 and states are kept in the type of X (f16, bf16: in f32).
#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/gemm.h"
#include "kernels_ref/kernels.h"
#include "kernels_ref/nest.h"

namespace kiln::reference {
namespace {

struct Activation {
  double (*function)(double x, double alpha, double beta);
  double alpha, beta;
  double operator()(double x) const { return function(x, alpha, beta); }
};

struct ActivationRow {
  std::string_view name;  // in lower case
  double (*function)(double x, double alpha, double beta);
  bool has_alpha, has_beta;
  double alpha, beta;  // unless given
};

double affine(double x, double alpha, double beta) { return alpha * x + beta; }
double elu(double x, double alpha, double) { return x >= 0 ? x : alpha * std::expm1(x); }
double hard_sigmoid(double x, double alpha, double beta) {
  const double y = alpha * x + beta;
  return y < 0 ? 0 : y > 1 ? 1 : y;
}
double leaky_relu(double x, double alpha, double) { return x < 0 ? alpha * x : x; }
double relu(double x, double, double) { return x < 0 ? 0 : x; }
double scaled_tanh(double x, double alpha, double beta) { return alpha * std::tanh(beta * x); }
double sigmoid(double x, double, double) { return 1 / (1 + std::exp(-x)); }
double softplus(double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double softsign(double x, double, double) { return x / (1 + std::abs(x)); }
double tanh(double x, double, double) { return std::tanh(x); }
double thresholded_relu(double x, double alpha, double) { return x > alpha ? x : 0; }

constexpr ActivationRow kActivations[] = {
    {"affine", affine, true, true, 1, 0},
    {"elu", elu, true, false, 1, 0},
    {"hardsigmoid", hard_sigmoid, true, true, 0.2, 0.5},
    {"leakyrelu", leaky_relu, true, false, 0.01, 0},
    {"relu", relu, false, false, 0, 0},
    {"scaledtanh", scaled_tanh, true, true, 1, 1},
    {"sigmoid", sigmoid, false, false, 0, 0},
    {"softplus", softplus, false, false, 0, 0},
    {"softsign", softsign, false, false, 0, 0},
    {"tanh", tanh, false, false, 0, 0},
    {"thresholdedrelu", thresholded_relu, true, false, 1, 0},
};

const ActivationRow& activation_row(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) return row;
  }
  throw_caller(ErrorCode::InvalidModel, "activation \"{}\" is unknown", name);
}

std::vector<double> numbers_or_none(const graph::Node& node, std::string_view attribute) {
  if (!graph::has(node, attribute)) return {};
  return std::get<std::vector<double>>(node.attributes.find(attribute)->second);
}

// The activations of all directions. Those that have an alpha (beta) take them from the list in turn.
std::vector<Activation> activations(const graph::Node& node, std::initializer_list<std::string_view> defaults,
                                    std::int64_t directions) {
  std::vector<std::string> names;
  if (graph::has(node, "activations")) {
    names = std::get<std::vector<std::string>>(node.attributes.find("activations")->second);
  } else {
    for (std::int64_t i = 0; i < directions; ++i) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  const std::vector<double> alphas = numbers_or_none(node, "activation_alpha");
  const std::vector<double> betas = numbers_or_none(node, "activation_beta");
  auto alpha = alphas.begin(), beta = betas.begin();
  std::vector<Activation> result;
  for (const std::string& name : names) {
    const ActivationRow& row = activation_row(name);
    Activation& added = result.emplace_back(Activation{row.function, row.alpha, row.beta});
    if (row.has_alpha && alpha != alphas.end()) added.alpha = *alpha++;
    if (row.has_beta && beta != betas.end()) added.beta = *beta++;
  }
  return result;
}

// Bounds what goes into a gate.
struct Clip {
  double limit;
  explicit Clip(const graph::Node& node)
      : limit(graph::has(node, "clip") ? graph::number(node, "clip")
                                       : std::numeric_limits<double>::infinity()) {}
  double operator()(double x) const { return x > limit ? limit : x < -limit ? -limit : x; }
};

// out[rows x columns] = a[rows x depth] times a weight matrix.
template <typename T>
using Projection = std::function<void(std::int64_t rows, const T* a, T* out)>;

template <typename T>
Projection<T> projection(const Call& call, const Matrix<T>& weights, std::int64_t depth,
                         std::int64_t columns) {
  return [&call, weights, depth, columns](std::int64_t rows, const T* a, T* out) {
    matrix_product<T>(
        call, 1, rows, columns, depth, [=](std::int64_t) { return Matrix<T>{a, depth, 1}; },
        [=](std::int64_t, std::int64_t k, std::int64_t column, std::int64_t count, T* to) {
          copy_matrix_row(weights, k, column, count, to);
        },
        [=](std::int64_t) { return out; });
  };
}

// What the operators share: the sizes of one call, and where rows of X, Y and the states lie.
struct Sizes {
  std::int64_t gates, directions, steps, batch, input, hidden;
  bool batch_first;
  std::vector<std::int64_t> lengths;  // of each sequence

  Sizes(const Call& call, std::int64_t gate_count, std::int64_t hidden_size)
      : gates(gate_count), hidden(hidden_size) {
    const Tensor& x = call.input(0);
    expect_rank("X", x, 3);
    const std::string& direction = graph::text(call.node, "direction");
    directions = direction == "bidirectional" ? 2 : 1;
    batch_first = graph::integer(call.node, "layout") != 0;
    steps = x.extents()[batch_first ? 1 : 0];
    batch = x.extents()[batch_first ? 0 : 1];
    input = x.extents()[2];
    if (graph::has(call.node, "hidden_size") && graph::integer(call.node, "hidden_size") != hidden) {
      throw_caller(ErrorCode::ShapeMismatch, "hidden_size is {}, but the weights are those of {}",
                   graph::integer(call.node, "hidden_size"), hidden);
    }
    lengths = optional_integers(call, 4);
    if (!call.has_input(4)) lengths.assign(static_cast<std::size_t>(batch), steps);
    if (static_cast<std::int64_t>(lengths.size()) != batch) {
      throw_caller(ErrorCode::ShapeMismatch, "sequence_lens has {} elements, expected the batch of {}",
                   lengths.size(), batch);
    }
    for (const std::int64_t length : lengths) {
      if (length < 0 || length > steps) {
        throw_caller(ErrorCode::InvalidArgument, "a sequence length is {}, expected one from 0 to {}", length,
                     steps);
      }
    }
  }

  std::int64_t columns() const { return gates * hidden; }
  Extents output_extents() const {
    return batch_first ? Extents{batch, steps, directions, hidden}
                       : Extents{steps, directions, batch, hidden};
  }
  Extents state_extents() const {
    return batch_first ? Extents{batch, directions, hidden} : Extents{directions, batch, hidden};
  }
  std::int64_t output_row(std::int64_t step, std::int64_t direction, std::int64_t item) const {
    return batch_first ? (item * steps + step) * directions + direction
                       : (step * directions + direction) * batch + item;
  }
  std::int64_t state_row(std::int64_t direction, std::int64_t item) const {
    return batch_first ? item * directions + direction : direction * batch + item;
  }
};

// The state of one direction: [batch x hidden], of an initial state if there is one.
template <typename T>
std::vector<T> initial_state(const Call& call, const Sizes& sizes, std::size_t index,
                             std::int64_t direction) {
  std::vector<T> state(static_cast<std::size_t>(sizes.batch * sizes.hidden));
  if (!call.has_input(index)) return state;
  expect_extents("an initial state", call.input(index), sizes.state_extents());
  const T* from = call.input(index).as<T>().data();
  for (std::int64_t item = 0; item < sizes.batch; ++item) {
    std::copy_n(from + sizes.state_row(direction, item) * sizes.hidden, sizes.hidden,
                state.data() + item * sizes.hidden);
  }
  return state;
}

template <typename T>
void store_state(Call& call, const Sizes& sizes, std::size_t index, std::int64_t direction,
                 const std::vector<T>& state) {
  if (!call.wants(index)) return;
  T* to = call.output(index, kDType<T>, sizes.state_extents()).template as_mutable<T>().data();
  for (std::int64_t item = 0; item < sizes.batch; ++item) {
    std::copy_n(state.data() + item * sizes.hidden, sizes.hidden,
                to + sizes.state_row(direction, item) * sizes.hidden);
  }
}

// Rows of the gates and states of one item at one step.
template <typename T>
struct Item {
  const T* gates;  // the input's share, [gates x hidden]
  T* hidden;       // to be replaced
  T* cell;
  std::int64_t index;  // in the batch
};

// Runs one direction. `input` multiplies rows of X; `prepare(state)` is called before each step with the
// hidden state of the whole batch, then `step(item)` for every sequence that has not ended.
template <typename T, typename Prepare, typename Step>
void unroll(Call& call, const Sizes& sizes, std::int64_t direction, bool with_cell,
            const Projection<T>& input, Prepare prepare, Step step) {
  const T* x = call.input(0).as<T>().data();
  const std::int64_t columns = sizes.columns(), hidden = sizes.hidden;
  const Tensor shares(kDType<T>, {sizes.steps * sizes.batch, columns});  // rows in the order of X
  input(sizes.steps * sizes.batch, x, reinterpret_cast<T*>(const_cast<std::byte*>(shares.data())));
  std::vector<T> state = initial_state<T>(call, sizes, 5, direction), cell;
  if (with_cell) cell = initial_state<T>(call, sizes, 6, direction);
  T* y = nullptr;
  if (call.wants(0)) {
    y = call.output(0, kDType<T>, sizes.output_extents()).template as_mutable<T>().data();
    for (std::int64_t t = 0; t < sizes.steps; ++t) {
      for (std::int64_t item = 0; item < sizes.batch; ++item) {
        if (t < sizes.lengths[static_cast<std::size_t>(item)]) continue;
        std::fill_n(y + sizes.output_row(t, direction, item) * hidden, hidden, T{0});
      }
    }
  }
  const bool reverse = direction == 1 || graph::text(call.node, "direction") == "reverse";
  const std::int64_t longest =
      sizes.lengths.empty() ? 0 : *std::max_element(sizes.lengths.begin(), sizes.lengths.end());
  for (std::int64_t t = 0; t < longest; ++t) {
    prepare(state.data());
    for (std::int64_t item = 0; item < sizes.batch; ++item) {
      const std::int64_t length = sizes.lengths[static_cast<std::size_t>(item)];
      if (t >= length) continue;
      const std::int64_t at = reverse ? length - 1 - t : t;
      const std::int64_t row = sizes.batch_first ? item * sizes.steps + at : at * sizes.batch + item;
      T* own = state.data() + item * hidden;
      step(Item<T>{shares.as<T>().data() + row * columns, own,
                   with_cell ? cell.data() + item * hidden : nullptr, item});
      if (y != nullptr) std::copy_n(own, hidden, y + sizes.output_row(at, direction, item) * hidden);
    }
  }
  store_state(call, sizes, 1, direction, state);
  if (with_cell) store_state(call, sizes, 2, direction, cell);
}

// W and R as [directions, gates * hidden, input (hidden)], and the biases of both.
template <typename T>
struct Weights {
  std::vector<T> recurrent;  // R of one direction transposed, so that its rows are read in order
  Matrix<T> input;
  std::vector<double> input_bias, recurrent_bias;

  Weights(const Call& call, const Sizes& sizes, std::int64_t direction) {
    const std::int64_t columns = sizes.columns(), hidden = sizes.hidden;
    expect_extents("W", call.input(1), {sizes.directions, columns, sizes.input});
    expect_extents("R", call.input(2), {sizes.directions, columns, hidden});
    input = {call.input(1).as<T>().data() + direction * columns * sizes.input, 1, sizes.input};
    const T* r = call.input(2).as<T>().data() + direction * columns * hidden;
    recurrent.resize(static_cast<std::size_t>(columns * hidden));
    for (std::int64_t row = 0; row < columns; ++row) {
      for (std::int64_t k = 0; k < hidden; ++k) {
        recurrent[static_cast<std::size_t>(k * columns + row)] = r[row * hidden + k];
      }
    }
    load_biases(call, sizes, direction);
  }

  void load_biases(const Call& call, const Sizes& sizes, std::int64_t direction) {
    const std::int64_t columns = sizes.columns();
    input_bias.assign(static_cast<std::size_t>(columns), 0);
    recurrent_bias = input_bias;
    if (!call.has_input(3)) return;
    expect_extents("B", call.input(3), {sizes.directions, 2 * columns});
    const T* b = call.input(3).as<T>().data() + direction * 2 * columns;
    std::copy_n(b, columns, input_bias.begin());
    std::copy_n(b + columns, columns, recurrent_bias.begin());
  }

  // Columns [first, first + count) gates of R.
  Projection<T> recurrent_projection(const Call& call, const Sizes& sizes, std::int64_t first,
                                     std::int64_t count) const {
    return projection<T>(call, {recurrent.data() + first * sizes.hidden, sizes.columns(), 1}, sizes.hidden,
                         count * sizes.hidden);
  }
};

std::int64_t hidden_size(const Call& call) {
  expect_rank("R", call.input(2), 3);
  return call.input(2).extents()[2];
}

// One direction of an LSTM. Gates come in the order input, output, forget, cell.
template <typename T>
void run_lstm(Call& call, const Sizes& sizes, std::int64_t direction, const Projection<T>& input,
              const Projection<T>& recurrent, const std::vector<double>& bias) {
  const std::vector<Activation> functions =
      activations(call.node, {"sigmoid", "tanh", "tanh"}, sizes.directions);
  const Activation* f = functions.data() + 3 * direction;
  const Clip clip(call.node);
  const bool coupled = graph::integer(call.node, "input_forget") != 0;
  const std::int64_t hidden = sizes.hidden, columns = sizes.columns();
  std::vector<double> peepholes(static_cast<std::size_t>(3 * hidden));  // input, output, forget
  if (call.has_input(7)) {
    expect_extents("P", call.input(7), {sizes.directions, 3 * hidden});
    std::copy_n(call.input(7).as<T>().data() + direction * 3 * hidden, 3 * hidden, peepholes.begin());
  }
  std::vector<T> product(static_cast<std::size_t>(sizes.batch * columns));
  unroll<T>(
      call, sizes, direction, true, input,
      [&](const T* state) { recurrent(sizes.batch, state, product.data()); },
      [&](const Item<T>& item) {
        const T* state_share = product.data() + item.index * columns;
        for (std::int64_t j = 0; j < hidden; ++j) {
          const auto gate = [&](std::int64_t index) {
            const std::int64_t at = index * hidden + j;
            return static_cast<double>(item.gates[at]) + static_cast<double>(state_share[at]) +
                   bias[static_cast<std::size_t>(at)];
          };
          const auto peephole = [&](std::int64_t index) {
            return peepholes[static_cast<std::size_t>(index * hidden + j)];
          };
          const double old = static_cast<double>(item.cell[j]);
          const double in = f[0](clip(gate(0) + peephole(0) * old));
          const double forget = coupled ? 1 - in : f[0](clip(gate(2) + peephole(2) * old));
          const double cell = forget * old + in * f[1](clip(gate(3)));
          const double out = f[0](clip(gate(1) + peephole(1) * cell));
          item.cell[j] = static_cast<T>(cell);
          item.hidden[j] = static_cast<T>(out * f[2](cell));
        }
      });
}

std::vector<double> sum(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result = a;
  for (std::size_t i = 0; i < b.size(); ++i) result[i] += b[i];
  return result;
}

}  // namespace

void rnn(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), rnn, {0, 1})) return;
  const Sizes sizes(call, 1, hidden_size(call));
  const std::vector<Activation> functions = activations(call.node, {"tanh"}, sizes.directions);
  const Clip clip(call.node);
  dispatch(WideFloats{}, call.input(0).dtype(), [&]<typename T>() {
    for (std::int64_t direction = 0; direction < sizes.directions; ++direction) {
      const Weights<T> weights(call, sizes, direction);
      const std::vector<double> bias = sum(weights.input_bias, weights.recurrent_bias);
      const Projection<T> recurrent = weights.recurrent_projection(call, sizes, 0, 1);
      const Activation& f = functions[static_cast<std::size_t>(direction)];
      std::vector<T> product(static_cast<std::size_t>(sizes.batch * sizes.hidden));
      unroll<T>(
          call, sizes, direction, false, projection<T>(call, weights.input, sizes.input, sizes.columns()),
          [&](const T* state) { recurrent(sizes.batch, state, product.data()); },
          [&](const Item<T>& item) {
            for (std::int64_t j = 0; j < sizes.hidden; ++j) {
              const T share = product[static_cast<std::size_t>(item.index * sizes.hidden + j)];
              item.hidden[j] =
                  static_cast<T>(f(clip(static_cast<double>(item.gates[j]) + static_cast<double>(share) +
                                        bias[static_cast<std::size_t>(j)])));
            }
          });
    }
  });
}

// Gates come in the order update, reset, hidden.
void gru(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), gru, {0, 1})) return;
  const Sizes sizes(call, 3, hidden_size(call));
  const std::vector<Activation> functions = activations(call.node, {"sigmoid", "tanh"}, sizes.directions);
  const Clip clip(call.node);
  // Whether the reset gate scales the state's share of the hidden gate, or the state itself.
  const bool reset_share = graph::integer(call.node, "linear_before_reset") != 0;
  const std::int64_t hidden = sizes.hidden, columns = sizes.columns();
  dispatch(WideFloats{}, call.input(0).dtype(), [&]<typename T>() {
    for (std::int64_t direction = 0; direction < sizes.directions; ++direction) {
      const Weights<T> weights(call, sizes, direction);
      const Projection<T> all = weights.recurrent_projection(call, sizes, 0, 3);
      const Projection<T> last = weights.recurrent_projection(call, sizes, 2, 1);
      const Activation* f = functions.data() + 2 * direction;
      std::vector<T> product(static_cast<std::size_t>(sizes.batch * columns));
      std::vector<T> scaled(static_cast<std::size_t>(hidden)), share(static_cast<std::size_t>(hidden));
      std::vector<double> update(static_cast<std::size_t>(hidden)), reset(update);
      unroll<T>(
          call, sizes, direction, false, projection<T>(call, weights.input, sizes.input, columns),
          [&](const T* state) { all(sizes.batch, state, product.data()); },
          [&](const Item<T>& item) {
            const T* state_share = product.data() + item.index * columns;
            const auto gate = [&](std::int64_t at) {
              return static_cast<double>(item.gates[at]) + static_cast<double>(state_share[at]) +
                     weights.input_bias[static_cast<std::size_t>(at)] +
                     weights.recurrent_bias[static_cast<std::size_t>(at)];
            };
            for (std::int64_t j = 0; j < hidden; ++j) {
              const auto i = static_cast<std::size_t>(j);
              update[i] = f[0](clip(gate(j)));
              reset[i] = f[0](clip(gate(hidden + j)));
              scaled[i] = static_cast<T>(reset[i] * static_cast<double>(item.hidden[j]));
            }
            if (!reset_share) last(1, scaled.data(), share.data());
            for (std::int64_t j = 0; j < hidden; ++j) {
              const auto i = static_cast<std::size_t>(j);
              const std::int64_t at = 2 * hidden + j;
              const double bias = weights.recurrent_bias[static_cast<std::size_t>(at)];
              const double from_state = reset_share ? reset[i] * (static_cast<double>(state_share[at]) + bias)
                                                    : static_cast<double>(share[i]) + bias;
              const double candidate =
                  f[1](clip(static_cast<double>(item.gates[at]) +
                            weights.input_bias[static_cast<std::size_t>(at)] + from_state));
              item.hidden[j] = static_cast<T>((1 - update[i]) * candidate +
                                              update[i] * static_cast<double>(item.hidden[j]));
            }
          });
    }
  });
}

void lstm(Call& call) {
  if (computed_in_f32(call, call.input(0).dtype(), lstm, {0, 1, 2})) return;
  const Sizes sizes(call, 4, hidden_size(call));
  dispatch(WideFloats{}, call.input(0).dtype(), [&]<typename T>() {
    for (std::int64_t direction = 0; direction < sizes.directions; ++direction) {
      const Weights<T> weights(call, sizes, direction);
      run_lstm<T>(call, sizes, direction, projection<T>(call, weights.input, sizes.input, sizes.columns()),
                  weights.recurrent_projection(call, sizes, 0, 4),
                  sum(weights.input_bias, weights.recurrent_bias));
    }
  });
}

namespace {

// Rows are quantised to u8 with one scale for all of them, as DynamicQuantizeLinear does, and multiplied
// exactly.
template <typename T>
Projection<T> quantized_projection(const Call& call, std::size_t weights_index, std::size_t scale_index,
                                   std::int64_t direction, std::int64_t depth, std::int64_t columns) {
  const Tensor& weights = call.input(weights_index);
  const Tensor& scale = call.input(scale_index);
  const std::vector<double> scales = to_numbers(scale), zeros = to_numbers(call.input(scale_index + 1));
  const std::int64_t per_direction = scale.rank() > 1 ? scale.extents().back() : 1;
  const auto offset = static_cast<std::size_t>(direction * per_direction);
  if (zeros.size() != scales.size() || (per_direction != 1 && per_direction != columns) ||
      static_cast<std::int64_t>(scales.size()) < (direction + 1) * per_direction) {
    throw_caller(ErrorCode::ShapeMismatch,
                 "scales and zero points are {} and {}, expected one for each direction or column",
                 to_string(scale.extents()), to_string(call.input(scale_index + 1).extents()));
  }
  const auto of_column = [=](std::int64_t j) {
    return offset + static_cast<std::size_t>(per_direction == 1 ? 0 : j);
  };
  // Weights without their zero points, wrapped into unsigned ones.
  std::vector<std::uint32_t> centred(static_cast<std::size_t>(depth * columns));
  dispatch(Types<std::int8_t, std::uint8_t>{}, weights.dtype(), [&]<typename W>() {
    const W* from = weights.as<W>().data() + direction * depth * columns;
    for (std::int64_t i = 0; i < depth * columns; ++i) {
      const auto zero = static_cast<std::int32_t>(zeros[of_column(i % columns)]);
      centred[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(std::int32_t{from[i]} - zero);
    }
  });
  return [&call, scales, of_column, depth, columns, centred](std::int64_t rows, const T* a, T* out) {
    T low = 0, high = 0;
    for (std::int64_t i = 0; i < rows * depth; ++i) {
      low = std::min(low, a[i]);
      high = std::max(high, a[i]);
    }
    const T step = low == high ? T{1} : (high - low) / T{255};
    const T zero = std::nearbyint(std::clamp(-low / step, T{0}, T{255}));
    std::vector<std::uint32_t> quantized(static_cast<std::size_t>(rows * depth));
    for (std::int64_t i = 0; i < rows * depth; ++i) {
      const T level = std::clamp(std::nearbyint(a[i] / step) + zero, T{0}, T{255});
      quantized[static_cast<std::size_t>(i)] =
          static_cast<std::uint32_t>(convert<std::int32_t>(level) - convert<std::int32_t>(zero));
    }
    std::vector<std::uint32_t> sums(static_cast<std::size_t>(rows * columns));
    projection<std::uint32_t>(call, {centred.data(), columns, 1}, depth, columns)(rows, quantized.data(),
                                                                                  sums.data());
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const auto exact = static_cast<std::int32_t>(sums[static_cast<std::size_t>(i)]);
      out[i] =
          static_cast<T>(exact) * static_cast<T>(static_cast<double>(step) * scales[of_column(i % columns)]);
    }
  };
}

}  // namespace

// W [directions, input, 4 * hidden] and R [directions, hidden, 4 * hidden] are integers.
void dynamic_quantize_lstm(Call& call) {
  expect_rank("R", call.input(2), 3);
  const Sizes sizes(call, 4, call.input(2).extents()[1]);
  const std::int64_t columns = sizes.columns();
  expect_extents("W", call.input(1), {sizes.directions, sizes.input, columns});
  expect_extents("R", call.input(2), {sizes.directions, sizes.hidden, columns});
  dispatch(WideFloats{}, call.input(0).dtype(), [&]<typename T>() {
    for (std::int64_t direction = 0; direction < sizes.directions; ++direction) {
      std::vector<double> bias(static_cast<std::size_t>(columns));
      if (call.has_input(3)) {
        expect_extents("B", call.input(3), {sizes.directions, 2 * columns});
        const T* b = call.input(3).as<T>().data() + direction * 2 * columns;
        for (std::int64_t j = 0; j < columns; ++j) {
          bias[static_cast<std::size_t>(j)] = static_cast<double>(b[j]) + static_cast<double>(b[columns + j]);
        }
      }
      run_lstm<T>(call, sizes, direction,
                  quantized_projection<T>(call, 1, 8, direction, sizes.input, columns),
                  quantized_projection<T>(call, 2, 10, direction, sizes.hidden, columns), bias);
    }
  });
}

}  // namespace kiln::reference
