#include "runtime/model.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "ir/base/checked_math.h"
#include "ir/base/errors.h"
#include "ir/graph/contract.h"
#include "runtime/launch.h"
#include "runtime/operands.h"
#include "runtime/passes/passes.h"
#include "runtime/region_forming.h"
#include "runtime/thread_pool.h"

namespace kiln::runtime {
namespace {

using templates::Program;
using templates::ProgramValue;

std::string describe(const graph::Graph& graph, const graph::Region& region) {
  const graph::Node& root = graph.node(region.root);
  return fmt::format("{} {}", name(root.op),
                     root.name.empty() ? fmt::format("#{}", region.root.index) : root.name);
}

// The name of a Value of the Region whose rank only running tells, or null.
const std::string* value_of_unknown_rank(const graph::Graph& graph, const graph::Region& region) {
  for (const graph::NodeId id : region.nodes) {
    for (const auto* values : {&graph.node(id).inputs, &graph.node(id).outputs}) {
      for (const graph::ValueId value : *values) {
        if (value && !graph.value(value).shape) return &graph.value(value).name;
      }
    }
  }
  return nullptr;
}

// By the bits: a float is not finite iff its exponent is all ones. Integers, so that the loop is vectors.
template <typename Bits>
bool all_finite(const Tensor& tensor, Bits exponent) {
  Bits found = 0;
  for (const Bits bits : tensor.as<Bits>()) found |= static_cast<Bits>((bits & exponent) == exponent);
  return found == 0;
}

// Weights in which padding would meet an infinity or NaN, to which it must add nothing: generated kernels
// take care of that for weights that a run brings, and take constant ones to be finite.
std::optional<graph::ValueId> weights_to_mend(const graph::Graph& graph, const graph::Region& region) {
  const graph::Node& root = graph.node(region.root);
  const bool transposed = root.op == graph::OpKind::ConvTranspose;
  if (root.op != graph::OpKind::Conv && !transposed) return std::nullopt;
  const auto pads = root.attributes.find("pads");
  const bool padded = transposed || text(root, "auto_pad") != "NOTSET" || pads == root.attributes.end() ||
                      std::ranges::any_of(integers(root, "pads"), [](std::int64_t pad) { return pad != 0; });
  const auto& weights = graph.value(root.inputs[1]).constant;
  if (!padded || !weights) return std::nullopt;
  const bool finite = [&] {
    switch (weights->dtype()) {
      case DType::F16:
        return all_finite<std::uint16_t>(*weights, 0x7c00);
      case DType::BF16:
        return all_finite<std::uint16_t>(*weights, 0x7f80);
      case DType::F32:
        return all_finite<std::uint32_t>(*weights, 0x7f800000);
      case DType::F64:
        return all_finite<std::uint64_t>(*weights, 0x7ff0000000000000);
      default:
        return true;
    }
  }();
  return finite ? std::nullopt : std::optional(root.inputs[1]);
}

// What prepared constants are made of: the bytes of every constant input.
std::string content_key(const graph::Graph& graph, const graph::Region& region,
                        const graph::Problem& problem) {
  std::string key;
  for (std::size_t i = 0; i < region.inputs.size(); ++i) {
    if (!problem.input_is_constant[i]) continue;
    const Tensor& tensor = *graph.value(region.inputs[i]).constant;
    const XXH128_hash_t hash = XXH3_128bits(tensor.data(), static_cast<std::size_t>(tensor.byte_size()));
    key += fmt::format("{:016x}{:016x}:{}:{};", hash.high64, hash.low64, name(tensor.dtype()),
                       to_string(tensor.extents()));
  }
  return key;
}

}  // namespace

AlignedBuffer::AlignedBuffer(std::int64_t bytes) : bytes_(bytes) {
  const std::size_t rounded = (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + 63) / 64 * 64;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
  if (!data_)
    throw_environment(ErrorCode::OutOfMemory, "cannot allocate {} bytes for prepared constants", bytes);
}

void AlignedBuffer::Free::operator()(std::byte* p) const { std::free(p); }

const Variant& CompiledRegion::variant(std::span<const std::int64_t> problem_bindings) const {
  for (const Variant& candidate : variants) {
    const auto& guard = candidate.choice.guard;
    if (!guard) return candidate;
    const std::int64_t size = guard->dim.evaluate(problem_bindings);
    if (size >= guard->low && size <= guard->high) return candidate;
  }
  throw_bug("a region has no variant without a guard");
}

Model::Model(graph::Graph graph, ModelOptions options)
    : graph_(std::move(graph)), options_(std::move(options)) {
  optimise(graph_);
  for (RegionDecision& decision : form_regions(graph_)) {
    add_region(decision.region, /*may_split=*/true);
    for (std::string& note : decision.notes) decisions_.push_back(std::move(note));
  }
}

bool Model::choose_template(CompiledRegion& region, std::string& reasons) {
  for (const templates::Template& candidate : templates::all()) {
    const auto refusal = candidate.refuses(region.problem, options_.target);
    if (!refusal) {
      region.source = &candidate;
      decisions_.push_back(fmt::format("region of {}: template {}, {} nodes", describe(graph_, region.region),
                                       candidate.name, region.region.nodes.size()));
      return true;
    }
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", candidate.name, *refusal);
  }
  return false;
}

void Model::add_region(const graph::Region& region, bool may_split) {
  CompiledRegion compiled;
  compiled.region = region;
  if (contract(graph_.node(region.root).op).fusion == graph::FusionClass::Control) {
    compiled.control = true;
    decisions_.push_back(fmt::format("{} {}", describe(graph_, region), kRunsGraphs));
    regions_.push_back(std::move(compiled));
    return;
  }
  if (const std::string* name = value_of_unknown_rank(graph_, region)) {
    give_up(compiled, fmt::format("the rank of {} is unknown before running", *name));
    regions_.push_back(std::move(compiled));
    return;
  }
  for (const graph::NodeId id : region.nodes) {
    if (!makes_sizes(graph_, graph_.node(id))) continue;
    give_up(compiled, "the size of a result shows only while running");
    regions_.push_back(std::move(compiled));
    return;
  }
  compiled.problem = make_problem(graph_, region);
  if (const auto weights = weights_to_mend(graph_, region)) {
    const auto number =
        std::find(region.inputs.begin(), region.inputs.end(), *weights) - region.inputs.begin();
    compiled.problem.input_is_constant.at(static_cast<std::size_t>(number)) = false;
  }
  std::string reasons;
  if (choose_template(compiled, reasons)) {
    regions_.push_back(std::move(compiled));
    return;
  }
  if (may_split && region.nodes.size() > 1) {
    decisions_.push_back(fmt::format("region of {} is split: {}", describe(graph_, region), reasons));
    for (const graph::Region& part : split_region(graph_, region)) add_region(part, /*may_split=*/false);
    return;
  }
  give_up(compiled, std::move(reasons));
  regions_.push_back(std::move(compiled));
}

void Model::give_up(CompiledRegion& region, std::string reason) {
  const std::string line =
      fmt::format("{} runs on reference kernels: {}", describe(graph_, region.region), reason);
  if (options_.strict) {
    throw Error(ErrorKind::Caller, ErrorCode::Refused, line, {{"hint", "strict mode forbids fallback"}});
  }
  if (options_.log) options_.log(line);
  decisions_.push_back(line);
  region.source = nullptr;
  region.variants.clear();
  region.fallback_reason = std::move(reason);
}

void Model::compile(const Parallelism& parallelism) {
  build();
  std::call_once(compiled_, [&] {
    compile_kernels(parallelism);
    prepare_constants(parallelism);
  });
}

void Model::build() {
  std::call_once(built_, [this] { build_variants(); });
}

void Model::build_variants() {
  for (CompiledRegion& region : regions_) {
    if (!region.generated()) continue;
    std::vector<templates::VariantChoice> choices = region.source->variants(region.problem, options_.target);
    // The default comes last, so that the first Variant whose guard admits a size is the one to run.
    std::rotate(choices.begin(), choices.begin() + 1, choices.end());
    for (templates::VariantChoice& choice : choices) {
      Program program = region.source->build(region.problem, choice.parameters, options_.target);
      region.variants.push_back(
          {.choice = std::move(choice), .program = std::move(program), .kernels = {}, .prepared = {}});
    }
  }
}

void Model::compile_kernels(const Parallelism& parallelism) {
  // Kernels first, then prepare Kernels, of each Variant in turn: the order of `requests` and of the loops
  // below.
  std::vector<jit::KernelRequest> requests;
  for (CompiledRegion& region : regions_) {
    for (Variant& variant : region.variants) {
      for (const auto* launches : {&variant.program.kernels, &variant.program.prepare}) {
        for (const templates::KernelLaunch& launch : *launches) {
          requests.push_back({launch.kernel, launch.schedule, options_.target});
        }
      }
    }
  }
  std::vector<Result<jit::ReadyKernel>> ready = options_.kernels->get_all(requests, parallelism.threads);
  std::size_t next = 0;
  for (CompiledRegion& region : regions_) {
    std::string failure;
    for (Variant& variant : region.variants) {
      for (std::size_t i = 0; i < variant.program.kernels.size() + variant.program.prepare.size(); ++i) {
        Result<jit::ReadyKernel>& kernel = ready[next++];
        if (!kernel) {
          failure = kernel.error().what();
          continue;
        }
        if (kernel->source == jit::KernelSource::Compiled) {
          compile_milliseconds_.push_back(kernel->facts.compile_ms);
          if (options_.log) {
            options_.log(fmt::format("compiled kernel {} of {}, variant {}, in {:.1f} ms: {}", kernel->key,
                                     describe(graph_, region.region), variant.choice.name,
                                     kernel->facts.compile_ms, kernel->miss));
          }
        }
        variant.kernels.push_back(kernel->kernel);
      }
    }
    if (!failure.empty()) give_up(region, std::move(failure));
  }
}

void Model::prepare_constants(const Parallelism& parallelism) {
  for (CompiledRegion& region : regions_) {
    for (Variant& variant : region.variants) {
      const Program& program = variant.program;
      variant.prepared.resize(program.values.size());
      if (program.prepare.empty()) continue;
      const std::string key = content_key(graph_, region.region, region.problem) + program.prepare_key;
      bool complete = true;
      for (std::size_t i = 0; i < program.values.size(); ++i) {
        const ProgramValue& value = program.values[i];
        if (value.kind != ProgramValue::Kind::Prepared) continue;
        auto& shared = prepared_[fmt::format("{}#{}", key, i)];
        if (!shared) {
          shared = std::make_shared<AlignedBuffer>(byte_size(value.dtype, value.elements.constant()));
          prepared_bytes_ += shared->bytes();
          complete = false;
        }
        variant.prepared[i] = shared;
      }
      if (complete) continue;
      const auto buffer = [&](int value) -> BufferRef {
        const auto i = static_cast<std::size_t>(value);
        if (program.values[i].kind == ProgramValue::Kind::Prepared)
          return {.fixed = variant.prepared[i]->data()};
        require(program.values[i].kind == ProgramValue::Kind::Input, "a prepare kernel reads value {}",
                value);
        const auto input = static_cast<std::size_t>(program.values[i].index);
        return {.fixed = graph_.value(region.region.inputs[input]).constant->data()};
      };
      for (std::size_t i = 0; i < program.prepare.size(); ++i) {
        const BoundLaunch launch = bind_launch(
            program.prepare[i], variant.kernels[program.kernels.size() + i], {}, program.values, buffer);
        std::vector<std::uint64_t> words = launch.words;
        for (const BoundLaunch::Patch& patch : launch.patches) {
          words[patch.word] = reinterpret_cast<std::uint64_t>(patch.buffer.fixed + patch.buffer.offset);
        }
        const std::int64_t stride = ceil_divide(launch.scratch_bytes, 64) * 64;
        const AlignedBuffer scratch(stride * parallelism.threads);
        run_launch(launch, words, {scratch.data(), stride}, parallelism);
      }
    }
  }
}

}  // namespace kiln::runtime
