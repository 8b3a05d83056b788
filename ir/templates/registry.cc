#include <array>

#include "ir/templates/template.h"

namespace kiln::templates {

#define KILN_TEMPLATE(variable) extern const Template variable;
#include "ir/templates/templates.def"
#undef KILN_TEMPLATE

std::span<const Template> all() {
  static const std::array kAll = {
#define KILN_TEMPLATE(variable) variable,
#include "ir/templates/templates.def"
#undef KILN_TEMPLATE
  };
  return kAll;
}

const Template* find(std::string_view name) {
  for (const Template& candidate : all()) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

}  // namespace kiln::templates
