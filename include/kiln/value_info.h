// What a model declares of its inputs and outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <kiln/datum.h>
#include <kiln/dtype.h>

namespace kiln {

// An extent of a model's input or output: a number, or the name of a symbol bound by each run.
struct DimInfo {
  std::int64_t extent = -1;  // -1: symbolic
  std::string symbol;        // empty for an anonymous dimension
};

struct ValueInfo {
  std::string name;
  DType dtype = DType::F32;                   // of the tensors in it
  std::optional<std::vector<DimInfo>> shape;  // nothing: any rank, or not a tensor
  Container container = Container::Tensor;
};

}  // namespace kiln
