// What a model takes and gives: a tensor, and in some models a sequence, a map, or nothing (an optional
// without a value). Copying shares what is inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <kiln/dtype.h>
#include <kiln/tensor.h>

namespace kiln {

// What a model declares of an input or output. An optional may be nothing at run time; if it has a value, it
// is that value.
enum class Container : std::uint8_t { Tensor, Sequence, Optional, OptionalSequence, Map, MapSequence };

// "tensor", "sequence", "optional tensor", ...
std::string_view name(Container container);

class Datum;

// Tensors of one dtype, or maps.
struct Sequence {
  DType dtype = DType::F32;  // of the tensors, or of the maps' values
  std::vector<Datum> items;
};

// keys[i] -> values[i]; both of rank 1 and equal length, keys of i64 or string, each once, ascending.
struct Map {
  Tensor keys, values;
};

class Datum {
 public:
  Datum() = default;                                     // nothing, as is what was moved from
  Datum(Tensor tensor) : content_(std::move(tensor)) {}  // NOLINT(google-explicit-constructor)
  Datum(Sequence sequence)                               // NOLINT(google-explicit-constructor)
      : content_(std::make_shared<const Sequence>(std::move(sequence))) {}
  Datum(Map map)  // NOLINT(google-explicit-constructor)
      : content_(std::make_shared<const Map>(std::move(map))) {}

  Datum(const Datum&) = default;
  Datum& operator=(const Datum&) = default;
  Datum(Datum&& other) noexcept : content_(std::exchange(other.content_, {})) {}
  Datum& operator=(Datum&& other) noexcept {
    Content content = std::exchange(other.content_, {});
    content_ = std::move(content);
    return *this;
  }
  ~Datum() = default;

  bool has_value() const { return !std::holds_alternative<std::monostate>(content_); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(content_); }
  bool is_sequence() const { return std::holds_alternative<std::shared_ptr<const Sequence>>(content_); }
  bool is_map() const { return std::holds_alternative<std::shared_ptr<const Map>>(content_); }

  // Throw Error (caller, type_mismatch) if it is something else.
  const Tensor& tensor() const;
  Tensor& tensor();
  const Sequence& sequence() const;
  const Map& map() const;

  bool operator==(const Datum& other) const;  // by content

 private:
  using Content =
      std::variant<std::monostate, Tensor, std::shared_ptr<const Sequence>, std::shared_ptr<const Map>>;
  Content content_;
};

// "f32 2x3", "sequence of 2 f32", "map of 3 f32", "nothing".
std::string to_string(const Datum& datum);

}  // namespace kiln
