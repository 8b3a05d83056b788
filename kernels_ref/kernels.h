// Declarations of all kernels, from their one list.
#pragma once

#include "kernels_ref/reference.h"

namespace kiln::reference {

#define KILN_REFERENCE(kind, function) void function(Call& call);
#include "kernels_ref/kernels.def"
#undef KILN_REFERENCE

}  // namespace kiln::reference
