// Operators of ai.onnx.ml that look elements up: LabelEncoder and OneHotEncoder.
#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "kernels_ref/arguments.h"
#include "kernels_ref/element.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

using Keys = Types<std::int16_t, std::int32_t, std::int64_t, float, double, std::string>;

// What elements that are the same key have in common: the standard compares bits; NaNs are all one key.
template <typename T>
auto key_of(const T& element) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<std::uint64_t>(std::isnan(element) ? std::nan("") : static_cast<double>(element));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::int64_t>(element);
  } else {
    return std::string_view(element);
  }
}

}  // namespace

void label_encoder(Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& keys = tensor(call.node, "keys");
  const auto result_form = [&](const Tensor& given) {
    return call.promoted(given.dtype()) == given.dtype() ? given : widened_to_f64(given);
  };
  const Tensor values = result_form(tensor(call.node, "values")),
               fallback = result_form(tensor(call.node, "fallback"));
  const Tensor known = keys.dtype() == x.dtype() ? keys : converted(call, keys, x.dtype());
  Tensor& y = call.output(0, values.dtype(), x.extents());
  dispatch(Keys{}, x.dtype(), [&]<typename T>() {
    std::unordered_map<decltype(key_of(T())), std::size_t> places;
    std::size_t count = 0;
    for (const T& key : known.as<T>()) places.emplace(key_of(key), count++);  // the first of equal keys stays
    dispatch_storage(values.dtype(), [&]<typename U>() {
      U* to = y.as_mutable<U>().data();
      for (const T& element : x.as<T>()) {
        const auto found = places.find(key_of(element));
        *to++ = found == places.end() ? fallback.as<U>()[0] : values.as<U>()[found->second];
      }
    });
  });
}

void one_hot_encoder(Call& call) {
  const Tensor& x = call.input(0);
  const graph::Node& node = call.node;
  const bool zeros = integer(node, "zeros") != 0;
  Extents extents = x.extents();
  const auto encode = [&](const auto& categories, const auto& elements, const auto& key) {
    // The last of equal categories stays.
    std::unordered_map<std::decay_t<decltype(key(elements[0]))>, std::size_t> places;
    for (std::size_t i = 0; i < categories.size(); ++i) places[key(categories[i])] = i;
    extents.push_back(static_cast<std::int64_t>(categories.size()));
    const DType dtype = call.promoted(DType::F32);
    Tensor& y = call.output(0, dtype, extents);
    dispatch(WideFloats{}, dtype, [&]<typename T>() {
      T* to = y.as_mutable<T>().data();
      std::fill_n(to, y.elements(), T{0});
      for (const auto& element : elements) {
        const auto found = places.find(key(element));
        if (found != places.end()) {
          to[found->second] = T{1};
        } else if (!zeros) {
          throw_caller(ErrorCode::InvalidArgument, "'{}' is no category, and zeros is 0", key(element));
        }
        to += categories.size();
      }
    });
  };
  if (x.dtype() == DType::String) {
    encode(texts(node, "cats_strings"), x.as<std::string>(),
           [](const std::string& word) { return std::string_view(word); });
    return;
  }
  dispatch(Numbers{}, x.dtype(), [&]<typename T>() {
    encode(integers(node, "cats_int64s"), x.as<T>(),
           [](auto number) { return convert<std::int64_t>(number); });
  });
}

}  // namespace kiln::reference
