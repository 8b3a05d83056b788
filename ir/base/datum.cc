#include <kiln/datum.h>

#include "ir/base/errors.h"

namespace kiln {

std::string_view name(Container container) {
  switch (container) {
    case Container::Tensor:
      return "tensor";
    case Container::Sequence:
      return "sequence";
    case Container::Optional:
      return "optional tensor";
    case Container::OptionalSequence:
      return "optional sequence";
    case Container::Map:
      return "map";
    case Container::MapSequence:
      return "sequence of maps";
  }
  return {};
}

const Tensor& Datum::tensor() const {
  const Tensor* tensor = std::get_if<Tensor>(&content_);
  if (tensor == nullptr) throw_caller(ErrorCode::TypeMismatch, "got {}, expected a tensor", to_string(*this));
  return *tensor;
}

Tensor& Datum::tensor() { return const_cast<Tensor&>(std::as_const(*this).tensor()); }

const Sequence& Datum::sequence() const {
  if (!is_sequence()) throw_caller(ErrorCode::TypeMismatch, "got {}, expected a sequence", to_string(*this));
  return *std::get<std::shared_ptr<const Sequence>>(content_);
}

const Map& Datum::map() const {
  if (!is_map()) throw_caller(ErrorCode::TypeMismatch, "got {}, expected a map", to_string(*this));
  return *std::get<std::shared_ptr<const Map>>(content_);
}

bool Datum::operator==(const Datum& other) const {
  if (content_.index() != other.content_.index()) return false;
  if (is_sequence()) {
    return sequence().dtype == other.sequence().dtype && sequence().items == other.sequence().items;
  }
  if (is_map()) return map().keys == other.map().keys && map().values == other.map().values;
  return !is_tensor() || tensor() == other.tensor();
}

std::string to_string(const Datum& datum) {
  if (datum.is_tensor()) {
    return fmt::format("{} {}", name(datum.tensor().dtype()), to_string(datum.tensor().extents()));
  }
  if (datum.is_sequence()) {
    return fmt::format("sequence of {} {}", datum.sequence().items.size(), name(datum.sequence().dtype));
  }
  if (datum.is_map()) {
    return fmt::format("map of {} {}", datum.map().values.elements(), name(datum.map().values.dtype()));
  }
  return "nothing";
}

}  // namespace kiln
