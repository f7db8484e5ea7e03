#include <algorithm>

#include "exec/ops/family_ops.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/ops/update.h"
#include "kernels/optimizer/eight_bit.h"

namespace plimsoll {
namespace {

View at_element(ConstView view, int64_t element) {
  if (!view) return {};
  auto* start = static_cast<std::byte*>(const_cast<void*>(view.data));
  return {start + element * dtype_bytes(view.dtype), view.dtype};
}

// Returns the elements of a parameter that the op updates on this rank: the rank's slice if the op's attribute {ranks}
// divides the parameter among the ranks, otherwise all elements.
Slice slice_of_op(const BindContext& context, int64_t elements) {
  const std::optional<RankSlices> slices = rank_slices_of(context.attributes());
  if (!slices) return {.first = 0, .elements = elements, .of = elements};
  return slice_of_rank(*slices, elements, context.communicator().rank());
}

// Returns a view of an input that begins at element number `element` of the whole value. If the ranks divide the
// input, it has only this rank's slice, and the view begins at element number `begin_of_slice` of this slice.
View input_from(const BindContext& context, int input, int64_t element, int64_t begin_of_slice = 0) {
  const bool is_divided = context.has_input(input) && context.view().input(input).divided;
  return at_element(context.input(input), is_divided ? begin_of_slice : element);
}

// A part of a parameter: the rows that are a tensor of their own in a checkpoint. A parameter that is not fused has one part.
struct UpdatePart {
  // Index of the op's input that is the parameter; the other operands of the parameter follow it.
  int input = 0;
  int copy = -1;  // index of the op's input that is the 16-bit copy, or -1 if there is none
  int64_t index = 0;
  int64_t first_row = 0, rows = 0, row_elements = 0;

  int64_t first() const { return first_row * row_elements; }
  int64_t count() const { return rows * row_elements; }
};

std::vector<UpdatePart> update_parts(const BindContext& context) {
  const bool copies = context.attributes().integer_or("copies", 0) != 0;
  const std::vector<std::vector<int64_t>> rows = part_rows_of(context.attributes());
  const int stride = context.schema().repeated_inputs(context.view());
  std::vector<UpdatePart> parts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const int input = UpdateOp::kParameter + static_cast<int>(i) * stride;
    UpdatePart part{.input = input, .copy = copies ? input + stride - 1 : -1};
    part.row_elements = elements_per_row(context.view().in_shape(input));
    for (const int64_t count : rows[i]) {
      part.rows = count;
      parts.push_back(part);
      part.first_row += count;
      ++part.index;
    }
  }
  return parts;
}

}  // namespace

std::vector<OptimizerTensor> norm_tensors(const BindContext& context) {
  std::vector<OptimizerTensor> tensors;
  const auto count = static_cast<int>(gradients_of_norm(context.op()).size());
  tensors.reserve(static_cast<size_t>(count));
  const bool is_whole = mesh_axis_of(context.attributes()) == MeshAxis::kPipeline;
  const int64_t tensor_ranks = context.attributes().integer_or(kTensorRanks, 1);
  for (int i = 0; i < count; ++i) {
    const int64_t elements = context.input_elements(i);
    // The ranks share the computation of the norm: each reads some elements of the gradients. If a tensor-parallel group divides a
    // gradient, each of its ranks reads its own part; if all ranks of the group have the whole gradient, each reads a slice of it. If the
    // op has the attribute {tensor_ranks}, the data-parallel ranks divide the gradients in addition, and each rank reads only elements of
    // its own data-parallel slice. In a pipeline each stage reads all gradients that it has.
    const bool is_part = static_cast<bool>(context.view().input(i).split);
    Slice slice{.first = 0, .elements = elements, .of = elements};
    int64_t begin = 0;  // number of the first element that the op reads within this rank's slice
    if (tensor_ranks > 1) {
      slice = slice_of_op(context, elements);
      if (!is_part) {
        const Slice part = slice_of_rank({.ranks = tensor_ranks}, slice.elements,
                                         context.communicator(MeshAxis::kTensor).rank());
        begin = part.first;
        slice = {.first = slice.first + begin, .elements = part.elements, .of = elements};
      }
    } else if (!is_whole && !is_part) {
      slice = slice_of_op(context, elements);
    }
    tensors.push_back({.grad = input_from(context, i, slice.first, begin), .count = slice.elements});
  }
  return tensors;
}
std::vector<OptimizerTensor> plain_update_tensors(const BindContext& context) {
  const bool copies = context.attributes().integer_or("copies", 0) != 0;
  const bool split = context.attributes().integer_or("split", 0) != 0;
  const int stride = context.schema().repeated_inputs(context.view());
  const int states = stride - 2 - (copies || split ? 1 : 0);
  const bool is_divided = rank_slices_of(context.attributes()).has_value();
  std::vector<OptimizerTensor> tensors;
  for (int i = UpdateOp::kParameter; i < context.view().num_inputs(); i += stride) {
    const std::optional<Slice> slice =
        is_divided ? slice_of_op(context, context.input_elements(i)) : slice_of(context.attributes());
    const auto input = [&](int k, int64_t numbers_per_element) {
      if (is_divided) return input_from(context, k, slice->first * numbers_per_element);
      const int64_t first = slice ? slice->first_in(context.input_elements(k), numbers_per_element) : 0;
      return at_element(context.input(k), first);
    };
    OptimizerTensor tensor{.param = input(i, 1),
                           .grad = input(i + 1, 1),
                           .m = states > 0 ? input(i + 2, 1) : View{},
                           .v = states > 1 ? input(i + 3, 1) : View{},
                           .count = slice ? slice->elements : context.input_elements(i),
                           .first = slice ? slice->first : 0};
    if (copies) tensor.low = input(i + stride - 1, 1);
    if (split) tensor.remainder = input(i + stride - 1, 2);
    tensors.push_back(tensor);
  }
  return tensors;
}

std::vector<OptimizerTensor> eight_bit_update_tensors(const BindContext& context) {
  const bool copies = context.attributes().integer_or("copies", 0) != 0;
  const int states = (context.schema().repeated_inputs(context.view()) - 2 - (copies ? 1 : 0)) / 2;
  const bool has_v = states > 1;
  std::vector<OptimizerTensor> tensors;
  int64_t block = 0;  // index of the part's first maximum in the array of block maxima (absmax)
  for (const UpdatePart& part : update_parts(context)) {
    if (part.index == 0) block = 0;
    // This rank's slice begins at the start of a quantization block. A part that has no elements in the
    // slice is listed, too, because the random numbers for a part depend on its position in the list.
    const Slice slice = slice_of_op(context, context.input_elements(part.input));
    const int64_t first = std::clamp(slice.first, part.first(), part.first() + part.count());
    const int64_t end = std::clamp(slice.first + slice.elements, part.first(), part.first() + part.count());
    const int64_t first_in_slice = std::max<int64_t>(0, first - slice.first);
    const auto input = [&](int offset) {
      return input_from(context, part.input + offset, first, first_in_slice);
    };
    const auto absmax = [&](int offset) { return at_element(context.input(part.input + offset), block); };
    tensors.push_back({.param = input(0),
                       .grad = input(1),
                       .m = input(2),
                       .v = has_v ? input(4) : View{},
                       .count = end - first,
                       .first = first,
                       .m_absmax = absmax(3),
                       .v_absmax = has_v ? absmax(5) : View{}});
    if (part.copy >= 0) tensors.back().low = input_from(context, part.copy, first, first_in_slice);
    block += eight_bit_blocks(end - first);
  }
  return tensors;
}

std::vector<AdafactorTensor> factored_update_tensors(const BindContext& context) {
  const bool factored = context.attributes().integer("factored") != 0;
  const bool has_m = context.attributes().number("beta1") >= 0.0;
  std::vector<AdafactorTensor> tensors;
  for (const UpdatePart& part : update_parts(context)) {
    const auto input = [&](int offset, int64_t element) {
      return at_element(context.input(part.input + offset), element);
    };
    AdafactorTensor tensor{
        .param = input(0, part.first()), .grad = input(1, part.first()), .first = part.first()};
    if (factored) {
      tensor.row = input(2, part.first_row);
      tensor.column = input(3, part.index * part.row_elements);
      tensor.rows = part.rows;
      tensor.columns = part.row_elements;
    } else {
      tensor.v = input(2, part.first());
      tensor.columns = part.count();
    }
    if (has_m) tensor.m = input(factored ? 4 : 3, part.first());
    if (part.copy >= 0) tensor.low = at_element(context.input(part.copy), part.first());
    tensors.push_back(tensor);
  }
  return tensors;
}

GlobalNormArgs global_norm_args(const BindContext& context) {
  const auto num_gradients = static_cast<int>(gradients_of_norm(context.op()).size());
  const bool is_divided = rank_slices_of(context.attributes()).has_value();
  const int64_t rank = is_divided ? context.communicator().rank() : 0;
  GlobalNormArgs args{.loss = context.input(num_gradients),
                      .norm = at_element(context.output(GlobalNormOp::kNorm), rank),
                      .finite = context.output(GlobalNormOp::kFinite),
                      .first_bad = at_element(context.output(GlobalNormOp::kFirstBad), rank)};
  args.scratch = context.scratch();
  return args;
}
ClipCoefficientArgs clip_coefficient_args(const BindContext& context) {
  return {.norm = context.input(ClipCoefficientOp::kNorm),
          .coefficient = context.output(ClipCoefficientOp::kCoefficient),
          .max_norm = context.attributes().number("max_norm"),
          .scale = context.input(ClipCoefficientOp::kScale)};
}
AdjustLossScaleArgs adjust_loss_scale_args(const BindContext& context) {
  return {.norm = context.input(AdjustLossScaleOp::kNorm),
          .finite = context.input(AdjustLossScaleOp::kFinite),
          .scale = context.output(AdjustLossScaleOp::kNewScale),
          .good_steps = context.output(AdjustLossScaleOp::kNewGoodSteps),
          .skipped = context.output(AdjustLossScaleOp::kNewSkipped),
          .unscaled_norm = context.output(AdjustLossScaleOp::kUnscaledNorm),
          .used_scale = context.output(AdjustLossScaleOp::kUsedScale),
          .skipped_out = context.output(AdjustLossScaleOp::kSkippedOut),
          .smallest = context.attributes().number("smallest"),
          .growth_interval = context.attributes().integer("growth_interval")};
}

}  // namespace plimsoll
