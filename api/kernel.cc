#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <kiln/kernel.h>

#include "api/options.h"
#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/tile/interpreter.h"
#include "ir/tile/text.h"
#include "jit/compile.h"
#include "jit/load/loader.h"
#include "jit/status.h"
#include "runtime/inputs.h"

namespace kiln {
namespace {

tile::MetaBindings bindings(const KernelParameters& parameters) {
  tile::MetaBindings result;
  for (const auto& [name, value] : parameters) result[name] = value;
  return result;
}

tile::Kernel find_kernel(std::string_view source, std::string_view file_name, std::string_view name,
                         const KernelParameters& parameters) {
  std::string known;
  for (tile::Kernel& kernel : tile::parse_kernels(source, file_name, bindings(parameters))) {
    if (kernel.name == name) return std::move(kernel);
    known += (known.empty() ? "" : ", ") + kernel.name;
  }
  throw_caller(ErrorCode::NotFound, "{} has no kernel {}; its kernels are: {}", file_name, name, known);
}

const char* access_name(tile::Access access) {
  switch (access) {
    case tile::Access::In:
      return "in";
    case tile::Access::Out:
      return "out";
    case tile::Access::InOut:
      return "inout";
  }
  return "";
}

// Throws unless a dense tensor can be the memory view that a parameter wants.
void check_view(const tile::Kernel& kernel, std::size_t index, const tile::Type& type, const Tensor& tensor) {
  const std::string where = fmt::format("argument {} of kernel {}", index, kernel.name);
  if (!runtime::has_elements(tensor)) {
    throw_caller(ErrorCode::InvalidArgument,
                 "{} has no elements: the Tensor was default-constructed or moved from", where);
  }
  if (tensor.dtype() != type.element) {
    throw_caller(ErrorCode::TypeMismatch, "{} has dtype {}, expected {}", where, name(tensor.dtype()),
                 name(type.element));
  }
  const std::vector<std::int64_t> strides = dense_strides(tensor.extents());
  bool fits = tensor.extents().size() == type.extents.size();
  for (std::size_t i = 0; fits && i < type.extents.size(); ++i) {
    fits = (type.extents[i] == tile::kDynamic || type.extents[i] == tensor.extents()[i]) &&
           (type.strides[i] == tile::kDynamic || type.strides[i] == strides[i] || tensor.extents()[i] <= 1);
  }
  if (!fits) {
    throw_caller(ErrorCode::ShapeMismatch, "{} has extents {}, expected {}", where,
                 to_string(tensor.extents()), to_string(type));
  }
}

tile::Literal scalar_literal(const tile::Kernel& kernel, std::size_t index, DType dtype,
                             const Tensor& tensor) {
  if (tensor.elements() != 1 || tensor.dtype() != dtype) {
    throw_caller(ErrorCode::TypeMismatch, "argument {} of kernel {} is {} {}, expected one {}", index,
                 kernel.name, name(tensor.dtype()), to_string(tensor.extents()), name(dtype));
  }
  tile::Literal literal{.dtype = dtype, .bits = 0};
  std::memcpy(&literal.bits, tensor.data(), static_cast<std::size_t>(tensor.byte_size()));
  return literal;
}

void interpret_kernel(const tile::Kernel& kernel, const std::vector<Tensor>& arguments) {
  std::vector<tile::Argument> bound;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const tile::Type& type = kernel.type(kernel.parameters[i].value);
    Tensor tensor = arguments[i];
    if (type.is_view()) {
      bound.emplace_back(
          tile::ViewArgument{.bytes = {tensor.mutable_data(), static_cast<std::size_t>(tensor.byte_size())},
                             .offset = 0,
                             .extents = tensor.extents(),
                             .strides = dense_strides(tensor.extents())});
    } else {
      bound.emplace_back(scalar_literal(kernel, i, type.element, tensor));
    }
  }
  tile::interpret(kernel, bound);
}

void run_generated(const tile::Kernel& kernel, const std::vector<Tensor>& arguments, const Target& target) {
  const jit::Artifact artifact = jit::compile(kernel, {}, target, "kiln_kernel").value();
  const jit::LoadedKernel loaded = jit::load(artifact).value();
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const tile::Type& type = kernel.type(kernel.parameters[i].value);
    if (!type.is_view()) {
      words.push_back(scalar_literal(kernel, i, type.element, arguments[i]).bits);
      continue;
    }
    words.push_back(reinterpret_cast<std::uint64_t>(arguments[i].data()));
    for (const std::int64_t extent : arguments[i].extents())
      words.push_back(static_cast<std::uint64_t>(extent));
    for (const std::int64_t stride : dense_strides(arguments[i].extents()))
      words.push_back(static_cast<std::uint64_t>(stride));
  }
  std::array<std::int64_t, jit::kMaxGridRank> low{}, high{};
  loaded.grid(words.data(), high.data());
  const Tensor scratch(DType::U8, {std::max<std::int64_t>(loaded.scratch(words.data()), 1)});
  jit::KernelStatus status;
  const jit::KernelCall call{.arguments = words.data(),
                             .low = low.data(),
                             .high = high.data(),
                             .scratch = const_cast<std::byte*>(scratch.data()),
                             .status = &status};
  loaded.run(&call);
  if (status.code != 0) jit::throw_status(status, kernel.grid_rank());
}

}  // namespace

std::vector<KernelInfo> check_kernels(std::string_view source, std::string_view file_name,
                                      const KernelParameters& parameters) {
  std::vector<KernelInfo> infos;
  const std::vector<tile::KernelSignature> signatures = tile::parse_signatures(source, file_name);
  const std::vector<tile::Kernel> kernels = tile::parse_kernels(source, file_name, bindings(parameters));
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    KernelInfo info{
        .name = kernels[i].name, .meta_parameters = {}, .parameters = {}, .text = tile::print(kernels[i])};
    for (const tile::MetaParameter& meta : signatures[i].meta_parameters)
      info.meta_parameters.push_back(meta.name);
    for (const tile::Parameter& parameter : kernels[i].parameters) {
      const tile::Type& type = kernels[i].type(parameter.value);
      info.parameters.push_back({.name = kernels[i].values[parameter.value.index].name,
                                 .type = to_string(type),
                                 .access = type.is_view() ? access_name(parameter.access) : ""});
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

void run_kernel(std::string_view source, std::string_view file_name, std::string_view name,
                const KernelParameters& parameters, const std::vector<Tensor>& arguments, KernelEngine engine,
                const std::string& target) {
  const tile::Kernel kernel = find_kernel(source, file_name, name, parameters);
  if (arguments.size() != kernel.parameters.size()) {
    throw_caller(ErrorCode::InvalidArgument, "kernel {} takes {} arguments, got {}", kernel.name,
                 kernel.parameters.size(), arguments.size());
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const tile::Type& type = kernel.type(kernel.parameters[i].value);
    if (type.is_view()) check_view(kernel, i, type, arguments[i]);
  }
  tile::require_equal_extents(kernel, [&](std::size_t parameter, int axis) {
    return arguments[parameter].extents()[static_cast<std::size_t>(axis)];
  });
  if (engine == KernelEngine::Interpreter) {
    interpret_kernel(kernel, arguments);
  } else {
    run_generated(kernel, arguments, api::parse_target(target));
  }
}

std::string kernel_listing(std::string_view source, std::string_view file_name, std::string_view name,
                           const KernelParameters& parameters, std::string_view listing,
                           const std::string& target) {
  if (listing != "llvm" && listing != "asm") {
    throw_caller(ErrorCode::InvalidArgument, "unknown listing {}, expected llvm or asm", listing);
  }
  const tile::Kernel kernel = find_kernel(source, file_name, name, parameters);
  return jit::listing(kernel, {}, api::parse_target(target),
                      listing == "llvm" ? jit::Listing::LlvmIr : jit::Listing::Assembly)
      .value();
}

}  // namespace kiln
