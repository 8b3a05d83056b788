#include "api/explain.h"

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "ir/base/errors.h"
#include "ir/tile/text.h"
#include "jit/compile.h"
#include "runtime/plan.h"

namespace kiln::api {
namespace {

using runtime::CompiledRegion;
using runtime::Model;

std::string title(const Model& model, const CompiledRegion& region) {
  const graph::Node& root = model.graph().node(region.region.root);
  return fmt::format("{} {}", name(root.op), root.name);
}

std::string regions_text(const Model& model, std::string_view filter) {
  std::string text;
  for (const std::string& decision : model.decisions()) {
    if (decision.find(filter) != std::string::npos) text += printable(decision) + "\n";
  }
  return text;
}

// Every Kernel of every Region's Programs, by `print`.
std::string kernels_text(const Model& model, std::string_view filter,
                         const std::function<std::string(const templates::KernelLaunch&)>& print) {
  std::string text;
  for (const CompiledRegion& region : model.regions()) {
    const std::string name = title(model, region);
    if (name.find(filter) == std::string::npos) continue;
    if (!region.generated()) {
      text += fmt::format("// {}: {}\n\n", printable(name),
                          region.control ? std::string(runtime::kRunsGraphs)
                                         : "reference kernels: " + printable(region.fallback_reason));
      continue;
    }
    for (const runtime::Variant& variant : region.variants) {
      for (const auto* launches : {&variant.program.prepare, &variant.program.kernels}) {
        for (const templates::KernelLaunch& launch : *launches) {
          text += fmt::format("// {}: template {}, variant {}\n{}\n", printable(name), region.source->name,
                              variant.choice.name, print(launch));
        }
      }
    }
  }
  return text;
}

std::string listing_text(const Model& model, std::string_view filter, jit::Listing listing) {
  return kernels_text(model, filter, [&](const templates::KernelLaunch& launch) {
    return jit::listing(launch.kernel, launch.schedule, model.target(), listing).value();
  });
}

}  // namespace

std::string explain(runtime::SessionCore& core, std::string_view stage, std::string_view filter,
                    std::span<const Extents> input_extents) {
  if (stage == "graph") return to_text(core.model().graph());
  if (stage == "plan") {
    graph::Bindings bindings;
    const runtime::Contradictions wrong = core.bind(input_extents, bindings);
    if (!wrong.empty())
      throw_caller(ErrorCode::ShapeMismatch, "{}", describe(core.model().graph(), wrong, input_extents));
    return to_text(*core.plan(std::move(bindings)), core.model());
  }
  // Of the model, and of every Graph in its nodes.
  const auto of_each = [&](const std::function<std::string(const Model&)>& text_of) {
    std::string text;
    core.visit([&](const runtime::SessionCore& each) { text += text_of(each.model()); });
    return text;
  };
  if (stage == "regions") return of_each([&](const Model& model) { return regions_text(model, filter); });
  core.build();
  if (stage == "tile") {
    return of_each([&](const Model& model) {
      return kernels_text(model, filter,
                          [](const templates::KernelLaunch& launch) { return print(launch.kernel); });
    });
  }
  if (stage == "llvm" || stage == "asm") {
    const jit::Listing listing = stage == "llvm" ? jit::Listing::LlvmIr : jit::Listing::Assembly;
    return of_each([&](const Model& model) { return listing_text(model, filter, listing); });
  }
  throw_caller(ErrorCode::InvalidArgument,
               "unknown stage {}, expected graph, regions, plan, tile, llvm or asm", stage);
}

}  // namespace kiln::api
