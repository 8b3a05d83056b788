// Executes a Plan: one call of Session::run.
#pragma once

#include <span>

#include <kiln/tensor.h>

#include "runtime/arena_pool.h"
#include "runtime/model.h"
#include "runtime/plan.h"
#include "runtime/thread_pool.h"

namespace kiln::runtime {

// Runs all Segments on the caller's thread and the pool. `inputs` are in graph order and fit the Plan;
// `outputs` are tensors of the right dtype and extents whose memory is filled, or default tensors for outputs
// whose size shows only now, which are replaced. Thread safe for different outputs. Errors name node and op.
void execute(const Model& model, const Plan& plan, const Parallelism& parallelism, ArenaPool& arenas,
             std::span<const Tensor> inputs, std::span<Tensor> outputs);

}  // namespace kiln::runtime
