// Executes a Plan: one call of Session::run.
#pragma once

#include <span>

#include <kiln/datum.h>

#include "kernels_ref/reference.h"
#include "runtime/arena_pool.h"
#include "runtime/model.h"
#include "runtime/plan.h"
#include "runtime/thread_pool.h"

namespace kiln::runtime {

// Runs all Segments on the caller's thread and the pool. `inputs` are in graph order and fit the Plan;
// `outputs` are tensors of the right dtype and extents whose memory is filled, or nothing for outputs whose
// size shows only now or that are no tensors, which are set. `run_body` runs the Graphs of control nodes.
// Thread safe for different outputs. Errors name node and op.
void execute(const Model& model, const Plan& plan, const Parallelism& parallelism, ArenaPool& arenas,
             const reference::RunBody& run_body, std::span<const Datum> inputs, std::span<Datum> outputs);

}  // namespace kiln::runtime
