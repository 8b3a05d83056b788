#include "ir/base/target.h"

namespace kiln {

const char* name(Isa isa) {
  switch (isa) {
    case Isa::X86_64_V3:
      return "x86-64-v3";
    case Isa::X86_64_V4:
      return "x86-64-v4";
  }
  return "?";
}

}  // namespace kiln
