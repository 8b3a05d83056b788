// The translators that ops.def names.
#pragma once

#include "frontend/onnx/translation.h"

namespace kiln::frontend::translate {

#define KILN_ONNX_OP(domain, op, since, until, translator) void translator(Translation& node);
#include "frontend/onnx/ops.def"
#undef KILN_ONNX_OP

}  // namespace kiln::frontend::translate
