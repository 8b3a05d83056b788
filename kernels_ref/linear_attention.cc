// LinearAttention: a state in place of all the keys before. It is in f32, sums are in f64.
#include <cmath>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/heads.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {

// For each step: the state decays, takes up key x value (or, with a delta rule, beta times what the value
// adds to what the key already recalls), and the query reads it.
void linear_attention(Call& call) {
  const graph::Node& node = call.node;
  const Tensor &query = call.input(0), &key = call.input(1), &value = call.input(2);
  const std::int64_t heads = graph::integer(node, "q_num_heads"),
                     state_heads = graph::integer(node, "kv_num_heads");
  expect_rank("query", query, 3);
  expect_rank("key", key, 3);
  expect_rank("value", value, 3);
  const std::int64_t batch = query.extents()[0], steps = query.extents()[1], group = heads / state_heads;
  const std::int64_t key_size = query.extents()[2] / heads, value_size = value.extents()[2] / state_heads;
  expect_extents("query", query, {batch, steps, heads * key_size});
  expect_extents("key", key, {batch, steps, state_heads * key_size});
  expect_extents("value", value, {batch, steps, state_heads * value_size});
  const Extents state_extents = {batch, state_heads, key_size, value_size};
  const DType dtype = query.dtype(), wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  const auto widened = [&](std::size_t index) {
    return call.has_input(index) ? converted(call, call.input(index), wide) : Tensor(wide, {0});
  };
  const Tensor q = widened(0), k = widened(1), v = widened(2), decay = widened(4), beta = widened(5);
  const auto last_extent = [&](std::size_t index, std::string_view what, std::int64_t a, std::int64_t b) {
    if (!call.has_input(index)) return std::int64_t{0};
    const Extents& e = call.input(index).extents();
    if (e.size() != 3 || e[0] != batch || e[1] != steps || (e[2] != a && e[2] != b)) {
      throw_caller(ErrorCode::ShapeMismatch, "{} is {}, expected {}x{}x{} or {}x{}x{}", what, to_string(e),
                   batch, steps, a, batch, steps, b);
    }
    return e[2];
  };
  const std::int64_t decays = last_extent(4, "decay", state_heads, state_heads * key_size);
  const std::int64_t betas = last_extent(5, "beta", state_heads, 1);
  const double given = graph::number(node, "scale");
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(key_size));
  DType state_dtype = dtype;
  Tensor state(wide, state_extents);
  if (call.has_input(3)) {
    expect_extents("past_state", call.input(3), state_extents);
    state_dtype = call.input(3).dtype();
    const Tensor past = converted(call, call.input(3), wide);
    std::copy_n(past.data(), past.byte_size(), state.mutable_data());
  }
  Tensor y(wide, {batch, steps, heads * value_size});
  dispatch(WideFloats{}, wide, [&]<typename T>() {
    for_range(
        call, batch * state_heads, steps * key_size * value_size, [&](std::int64_t begin, std::int64_t end) {
          std::vector<double> update(static_cast<std::size_t>(value_size));
          for (std::int64_t n = begin; n < end; ++n) {
            const std::int64_t b = n / state_heads, h = n % state_heads;
            T* s = state.as_mutable<T>().data() + n * key_size * value_size;
            for (std::int64_t t = 0; t < steps; ++t) {
              const std::int64_t row = b * steps + t;
              const T* own_key = k.as<T>().data() + (row * state_heads + h) * key_size;
              const T* own_value = v.as<T>().data() + (row * state_heads + h) * value_size;
              for (std::int64_t i = 0; decays > 0 && i < key_size; ++i) {
                const std::int64_t at = row * decays + (decays == state_heads ? h : h * key_size + i);
                const T factor = std::exp(decay.as<T>()[static_cast<std::size_t>(at)]);
                for (std::int64_t j = 0; j < value_size; ++j) s[i * value_size + j] *= factor;
              }
              for (std::int64_t j = 0; j < value_size; ++j)
                update[static_cast<std::size_t>(j)] = static_cast<double>(own_value[j]);
              if (betas > 0) {
                const auto strength = static_cast<double>(
                    beta.as<T>()[static_cast<std::size_t>(row * betas + (betas == 1 ? 0 : h))]);
                for (std::int64_t i = 0; i < key_size; ++i) {
                  for (std::int64_t j = 0; j < value_size; ++j) {
                    update[static_cast<std::size_t>(j)] -=
                        static_cast<double>(s[i * value_size + j]) * static_cast<double>(own_key[i]);
                  }
                }
                for (double& change : update) change *= strength;
              }
              for (std::int64_t i = 0; i < key_size; ++i) {
                for (std::int64_t j = 0; j < value_size; ++j) {
                  s[i * value_size + j] +=
                      static_cast<T>(static_cast<double>(own_key[i]) * update[static_cast<std::size_t>(j)]);
                }
              }
              for (std::int64_t reader = h * group; reader < (h + 1) * group; ++reader) {
                const T* own_query = q.as<T>().data() + (row * heads + reader) * key_size;
                T* to = y.as_mutable<T>().data() + (row * heads + reader) * value_size;
                for (std::int64_t j = 0; j < value_size; ++j) {
                  double sum = 0;
                  for (std::int64_t i = 0; i < key_size; ++i) {
                    sum += static_cast<double>(own_query[i]) * static_cast<double>(s[i * value_size + j]);
                  }
                  to[j] = static_cast<T>(scale * sum);
                }
              }
            }
          }
        });
  });
  store_output(call, 0, y, dtype);
  store_output(call, 1, state, state_dtype);
}

}  // namespace kiln::reference
