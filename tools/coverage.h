// How many tests run on generated kernels alone, by what their operators compute and by their element types.
//
// A test counts for one class, the most specific that one of its model's nodes has; a node of a class that is
// not counted takes it out. What a standard's function expands to (test_x_expanded, test_x_expanded_ver18)
// counts as the test beside it (test_x) does. A test counts as 16-bit if an input or output of its model is
// f16 or bf16, else as 32-bit; one of a type that is not counted takes it out.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <kiln/kiln.h>
#include <nlohmann/json.hpp>

namespace kiln::tools {

// What one test counts for; a part is empty if it is not counted.
struct Category {
  std::string operator_class;
  std::string element_types;
};
Category category_of(const Session& session);

class Coverage {
 public:
  // `path` names the test; `without_fallback` is whether it passed with no node on a reference kernel.
  void add(const std::string& path, Category category, bool without_fallback);
  // What the test counts for, once all are added.
  Category category(const std::string& path) const;
  // {class: {types: {"tests": n, "without_fallback": n}}}, the classes in a fixed order, without empty ones.
  nlohmann::ordered_json json() const;

 private:
  struct Test {
    Category category;
    bool without_fallback = false;
  };
  std::map<std::string, Test> tests_;
};

}  // namespace kiln::tools
