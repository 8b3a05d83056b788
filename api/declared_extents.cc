#include "api/declared_extents.h"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/inputs.h"

namespace kiln::api {
namespace {

// `extents_of(i)`: null for what is not a tensor.
template <typename ExtentsOf>
frontend::OpenedInputs find_wrong(std::span<const ValueInfo> declared, std::size_t given,
                                  const ExtentsOf& extents_of) {
  frontend::OpenedInputs wrong;
  for (std::size_t i = 0; i < std::min(declared.size(), given); ++i) {
    const auto& shape = declared[i].shape;
    const Extents* extents = extents_of(i);
    if (!shape || extents == nullptr) continue;
    if (shape->size() != extents->size()) {
      wrong[declared[i].name].rank = extents->size();
      continue;
    }
    for (std::size_t axis = 0; axis < shape->size(); ++axis) {
      const std::int64_t expected = (*shape)[axis].extent;
      if (expected >= 0 && expected != (*extents)[axis]) wrong[declared[i].name].axes.insert(axis);
    }
  }
  return wrong;
}

std::string declared_text(const ValueInfo& info) {
  std::string text;
  for (const DimInfo& dim : *info.shape) {
    if (!text.empty()) text += "x";
    text += dim.extent >= 0 ? fmt::format("{}", dim.extent) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return text.empty() ? "scalar" : text;
}

}  // namespace

frontend::OpenedInputs wrong_inputs(std::span<const ValueInfo> declared, std::span<const Datum> given) {
  for (std::size_t i = 0; i < std::min(declared.size(), given.size()); ++i) {
    if (!given[i].is_tensor()) continue;
    const Tensor& tensor = given[i].tensor();
    if (tensor.dtype() != declared[i].dtype || !runtime::has_elements(tensor)) return {};
  }
  return find_wrong(declared, given.size(), [&](std::size_t i) {
    return given[i].is_tensor() ? &given[i].tensor().extents() : nullptr;
  });
}

frontend::OpenedInputs wrong_inputs(std::span<const ValueInfo> declared, std::span<const Extents> given) {
  for (const Extents& extents : given) {
    if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 0; })) return {};
  }
  return find_wrong(declared, given.size(), [&](std::size_t i) { return &given[i]; });
}

frontend::OpenedInputs all_opened(std::span<const ValueInfo> declared, const frontend::OpenedInputs& wrong) {
  frontend::OpenedInputs opened = wrong;
  for (const ValueInfo& info : declared) {
    for (std::size_t axis = 0; info.shape && axis < info.shape->size(); ++axis) {
      if ((*info.shape)[axis].extent >= 0) opened[info.name].axes.insert(axis);
    }
  }
  return opened;
}

std::string describe(const frontend::OpenedInputs& wrong, std::span<const ValueInfo> declared,
                     std::span<const Extents> given) {
  std::string text;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (!wrong.contains(declared[i].name)) continue;
    text += fmt::format("{}input {} is {}, the model declares {}", text.empty() ? "" : "; ", declared[i].name,
                        to_string(given[i]), declared_text(declared[i]));
  }
  return text;
}

}  // namespace kiln::api
