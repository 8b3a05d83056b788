// Where a run's inputs contradict what the model declares. Run-time truth wins: the model is read again with
// the wrong extents open.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <kiln/kiln.h>

#include "frontend/onnx/loader.h"

namespace kiln::api {

// The inputs whose rank or fixed extents are not the declared ones; empty, and nothing allocated, where all
// fit. `given` in the order of `declared`; empty as well for inputs of a wrong dtype, which others refuse.
frontend::OpenedInputs wrong_inputs(std::span<const ValueInfo> declared, std::span<const Datum> given);
frontend::OpenedInputs wrong_inputs(std::span<const ValueInfo> declared, std::span<const Extents> given);

// The same, but with every extent of every input open, so that few such sets serve many different
// contradictions.
frontend::OpenedInputs all_opened(std::span<const ValueInfo> declared, const frontend::OpenedInputs& wrong);

// "input x is 4x3, the model declares 1x3", one for each wrong input.
std::string describe(const frontend::OpenedInputs& wrong, std::span<const ValueInfo> declared,
                     std::span<const Extents> given);

}  // namespace kiln::api
