// View combinators of the builder.
#include <cmath>

#include "ir/base/errors.h"
#include "ir/tile/builder.h"

namespace kiln::tile {

const Type& View::type() const {
  require(builder_ != nullptr, "an empty tile::View has no type");
  return builder_->kernel().type(id_);
}

std::vector<ValueId> View::operands(std::initializer_list<const Indices*> indices) const {
  require(builder_ != nullptr, "an empty tile::View is used");
  std::vector<ValueId> ids = {id_};
  for (const Indices* list : indices) {
    for (const Index& index : *list) ids.push_back(builder_->resolve(index));
  }
  return ids;
}

View View::derive(Opcode code, std::vector<ValueId> operands, Attributes attributes) const {
  return {builder_, builder_->append(code, std::move(operands), std::move(attributes)).front()};
}

Expr View::dim(int axis) const {
  require(axis >= 0 && axis < type().rank(), "axis {} of {}", axis, to_string(type()));
  const std::int64_t extent = type().extents[static_cast<std::size_t>(axis)];
  if (extent != kDynamic) return builder_->index(extent);
  return {builder_, builder_->append(Opcode::Dim, {id_}, {.axes = {axis}}).front()};
}

Expr View::load(const Indices& at, std::vector<std::int64_t> extents, double fill) const {
  std::vector<ValueId> ids = operands({&at});
  const DType element = type().element;
  // No fill means +0; storage-only dtypes have no other.
  if (fill != 0 || (is_float(element) && std::signbit(fill)))
    ids.push_back(builder_->constant(element, fill).id());
  const Type result = extents.empty() ? Type::scalar(element) : Type::tile(element, std::move(extents));
  return {builder_, builder_->append(Opcode::Load, std::move(ids), {}, {result}).front()};
}

Expr View::load(const Indices& at) const { return load(at, {}); }

Expr View::load_filled(const Indices& at, std::vector<std::int64_t> extents, Expr fill) const {
  std::vector<ValueId> ids = operands({&at});
  ids.push_back(fill.id());
  return {builder_,
          builder_->append(Opcode::Load, std::move(ids), {}, {Type::tile(type().element, std::move(extents))})
              .front()};
}

void View::store(const Indices& at, Expr value) const {
  std::vector<ValueId> ids = operands({&at});
  ids.push_back(value.id());
  builder_->append(Opcode::Store, std::move(ids));
}

void View::atomic_add(const Indices& at, Expr value) const {
  std::vector<ValueId> ids = operands({&at});
  ids.push_back(value.id());
  builder_->append(Opcode::AtomicAdd, std::move(ids));
}

View View::slice(const Indices& offsets, const Indices& extents, std::vector<std::int64_t> steps) const {
  if (steps.empty()) steps.assign(offsets.size(), 1);
  return derive(Opcode::SliceView, operands({&offsets, &extents}), {.strides = std::move(steps)});
}

View View::transpose(std::vector<std::int64_t> permutation) const {
  return derive(Opcode::TransposeView, operands({}), {.axes = std::move(permutation)});
}

View View::broadcast(std::vector<std::int64_t> axes, const Indices& extents) const {
  return derive(Opcode::BroadcastView, operands({&extents}), {.axes = std::move(axes)});
}

View View::merge(std::vector<std::int64_t> axes) const {
  return derive(Opcode::MergeView, operands({}), {.axes = std::move(axes)});
}

View View::split(int axis, const Indices& extents) const {
  return derive(Opcode::SplitView, operands({&extents}), {.axes = {axis}});
}

View View::window(const Window& window) const {
  Attributes attributes{.axes = window.axes,
                        .sizes = window.kernel,
                        .strides = window.strides,
                        .dilations = window.dilations,
                        .literal = Literal::number(type().element, window.value)};
  if (attributes.strides.empty()) attributes.strides.assign(window.axes.size(), 1);
  if (attributes.dilations.empty()) attributes.dilations.assign(window.axes.size(), 1);
  return derive(Opcode::WindowView, operands({&window.low, &window.high}), std::move(attributes));
}

View View::pad(const Indices& low, const Indices& high, PadMode mode, double value) const {
  Attributes attributes{.pad_mode = mode};
  if (mode == PadMode::Constant) attributes.literal = Literal::number(type().element, value);
  return derive(Opcode::PadView, operands({&low, &high}), std::move(attributes));
}

View View::gather(int axis, View indices) const {
  std::vector<ValueId> ids = operands({});
  ids.push_back(indices.id());
  return derive(Opcode::GatherView, std::move(ids), {.axes = {axis}});
}

View View::concat(View other, int axis) const {
  std::vector<ValueId> ids = operands({});
  ids.push_back(other.id());
  return derive(Opcode::ConcatView, std::move(ids), {.axes = {axis}});
}

}  // namespace kiln::tile
