// Comparisons of broadcast operands; with NaN every one is false.
#include "kernels_ref/broadcast.h"
#include "kernels_ref/kernels.h"

namespace kiln::reference {
namespace {

template <typename List, typename Function>
void compare(Call& call, Function function) {
  const Tensor &a = call.input(0), &b = call.input(1);
  if (a.dtype() != b.dtype()) {
    throw_caller(ErrorCode::TypeMismatch, "operands must have one type, got {} and {}", name(a.dtype()),
                 name(b.dtype()));
  }
  dispatch(List{}, a.dtype(),
           [&]<typename T>() { broadcast_binary<T, T, Boolean>(call, a, b, 1, function); });
}

}  // namespace

void equal(Call& call) {
  using All = decltype(join(NumbersAndBooleans{}, Types<std::string>{}));
  compare<All>(call, [](const auto& a, const auto& b) { return a == b; });
}
void greater(Call& call) {
  compare<Numbers>(call, [](auto a, auto b) { return a > b; });
}
void greater_or_equal(Call& call) {
  compare<Numbers>(call, [](auto a, auto b) { return a >= b; });
}
void less(Call& call) {
  compare<Numbers>(call, [](auto a, auto b) { return a < b; });
}
void less_or_equal(Call& call) {
  compare<Numbers>(call, [](auto a, auto b) { return a <= b; });
}

}  // namespace kiln::reference
