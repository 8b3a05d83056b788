// The lowering's table of contents.
//
// - plan.cc, planner.cc: which tiles are inlined into loops or materialised, which roots share a loop nest
// - entry.cc: the functions of the kernel ABI: arguments, grid loops
// - code.cc: loops, branches, and where a computation belongs
// - scalars.cc: scalars
// - views.cc: chains of views to coordinates in memory and conditions
// - memory.cc: loads and stores of strips
// - strips.cc: tiles, strip by strip, on demand
// - elementwise.cc, casts.cc: primitives
// - nest.cc, nest_bounds.cc: loop nests with a mask-free interior
// - combine.cc, logsumexp.cc: reductions
// - dot.cc: dots, with dot_problem.cc, dot_site.cc, row_operand.cc, panel_operand.cc, memory_matrix.cc,
//   block_product.cc, micro_kernel.cc, transpose.cc, widen.cc
// - control.cc: for, contract, if, scan, concat
// - buffers.cc: scratch and local memory
// - ranges.cc: bounds that make conditions unnecessary
// - status.cc: run-time errors
#include "jit/cpu/lower.h"

#include "ir/base/errors.h"
#include "jit/cpu/dot.h"
#include "jit/cpu/lowering.h"

namespace kiln::jit::cpu {

using tile::Op;
using tile::Opcode;

void Lowering::lower_block(tile::BlockId block) {
  const std::int64_t top = buffer_top_;
  for (const tile::OpId id : kernel_.block(block).ops) lower_op(id);
  buffer_top_ = top;
}

void Lowering::lower_op(tile::OpId id) {
  if (const Group* group = plan_.group_at(id)) return lower_group(*group);
  const Op& op = kernel_.op(id);
  switch (op.code) {
    case Opcode::Constant:
    case Opcode::Iota:
    case Opcode::Reshape:
    case Opcode::Transpose:
    case Opcode::Broadcast:
    case Opcode::Slice:
    case Opcode::Cast:
    case Opcode::Bitcast:
    case Opcode::Elementwise:
    case Opcode::Mask:
    case Opcode::Load:
    case Opcode::Dim:
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
    case Opcode::Assume:
      // Other tiles are computed by the loops that need them.
      if (plan_.is_scalar(op.results[0])) lower_scalar(op);
      return;
    case Opcode::Reduce:
      if (plan_.is_scalar(op.operands[0])) lower_scalar(op);
      return;
    case Opcode::SliceView:
    case Opcode::TransposeView:
    case Opcode::BroadcastView:
    case Opcode::MergeView:
    case Opcode::SplitView:
    case Opcode::WindowView:
    case Opcode::PadView:
    case Opcode::GatherView:
    case Opcode::ConcatView:
      return lower_view(id);
    case Opcode::Local:
      return lower_local(id);
    case Opcode::For:
      return lower_for(op);
    case Opcode::Contract:
      if (!lower_dot_contract(*this, id)) lower_contract(op);
      return;
    case Opcode::If:
      return lower_if(op);
    case Opcode::Scan:
      return lower_scan(op);
    case Opcode::Concat:
      return lower_concat(op);
    case Opcode::Dot:
      return lower_dot(*this, id);
    case Opcode::Store:
    case Opcode::AtomicAdd:  // roots: emitted with their Group
    case Opcode::Yield:      // taken by the Op that owns the block
    case Opcode::Assert:
    case Opcode::Print:
      return;  // debug mode only
  }
}

void lower(const tile::Kernel& kernel, const tile::Schedule& schedule, const Target& target,
           const std::string& symbol, llvm::Module& module) {
  const Plan plan(kernel);
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* pointer = llvm::PointerType::getUnqual(context);
  llvm::Type* nothing = llvm::Type::getVoidTy(context);
  const auto function = [&](const std::string& name, llvm::Type* result,
                            llvm::ArrayRef<llvm::Type*> parameters) {
    auto* created = llvm::Function::Create(llvm::FunctionType::get(result, parameters, false),
                                           llvm::Function::ExternalLinkage, name, module);
    created->setDoesNotThrow();
    created->addFnAttr("prefer-vector-width", std::to_string(8 * target.vector_bytes()));
    return created;
  };
  Lowering run(kernel, plan, schedule, target, function(symbol, nothing, {pointer}));
  run.lower_run();
  Lowering(kernel, plan, schedule, target, function(symbol + "_grid", nothing, {pointer, pointer}))
      .lower_grid();
  Lowering(kernel, plan, schedule, target,
           function(symbol + "_scratch", llvm::Type::getInt64Ty(context), {pointer}))
      .lower_scratch(run.buffer_bytes());
}

}  // namespace kiln::jit::cpu
