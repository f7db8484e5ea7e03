#include "exec/ops/call.h"
#include "exec/ops/family_ops.h"

#include <algorithm>

#include "graph/analysis/analysis.h"
#include "graph/ops/activation_op.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"

namespace plimsoll {
namespace {

// Returns the arguments of an activation function y = f(x). The backward kernel of some of these functions reads x, that of others reads y.
template <typename Args>
Args pointwise_args(const BindContext& context) {
  return {.x = context.input(PointwiseOp::kX),
          .y = context.output(PointwiseOp::kY),
          .n = context.output_elements(PointwiseOp::kY)};
}

}  // namespace

ActivationFwdArgs activation_args(const BindContext& context) {
  return pointwise_args<ActivationFwdArgs>(context);
}
ActivationBwdArgs activation_bwd_args(const BindContext& context) {
  return {.y = context.input(PointwiseBwdOp::kSaved),
          .d_y = context.input(PointwiseBwdOp::kDY),
          .d_x = context.output(PointwiseBwdOp::kDX),
          .n = context.output_elements(PointwiseBwdOp::kDX)};
}
GeluFwdArgs gelu_args(const BindContext& context) {
  auto args = pointwise_args<GeluFwdArgs>(context);
  args.activation = activation_of(context.attributes());
  return args;
}
GeluBwdArgs gelu_bwd_args(const BindContext& context) {
  return {.x = context.input(PointwiseBwdOp::kSaved),
          .d_y = context.input(PointwiseBwdOp::kDY),
          .d_x = context.output(PointwiseBwdOp::kDX),
          .n = context.output_elements(PointwiseBwdOp::kDX),
          .activation = activation_of(context.attributes())};
}

BiasGeluFwdArgs bias_gelu_args(const BindContext& context) {
  return {.h = context.input(BiasGeluOp::kH),
          .b = context.input(BiasGeluOp::kBias),
          .y = context.output(BiasGeluOp::kY),
          .T = context.output_size(BiasGeluOp::kY, 0),
          .C = context.output_size(BiasGeluOp::kY, 1),
          .activation = activation_of(context.attributes())};
}
BiasGeluBwdArgs bias_gelu_bwd_args(const BindContext& context) {
  return {.h = context.input(BiasGeluBwdOp::kH),
          .b = context.input(BiasGeluBwdOp::kBias),
          .d_y = context.input(BiasGeluBwdOp::kDY),
          .d_h = context.output(BiasGeluBwdOp::kDH),
          .d_b = context.output(BiasGeluBwdOp::kDBias),
          .scratch = context.scratch(),
          .T = context.input_size(BiasGeluBwdOp::kH, 0),
          .C = context.input_size(BiasGeluBwdOp::kH, 1),
          .activation = activation_of(context.attributes())};
}

GluFwdArgs glu_args(const BindContext& context) {
  return {.x = context.input(PointwiseOp::kX),
          .y = context.output(PointwiseOp::kY),
          .T = context.output_size(PointwiseOp::kY, 0),
          .F = context.output_size(PointwiseOp::kY, 1),
          .activation = activation_of(context.attributes())};
}
GluBwdArgs glu_bwd_args(const BindContext& context) {
  return {.x = context.input(PointwiseBwdOp::kSaved),
          .d_y = context.input(PointwiseBwdOp::kDY),
          .d_x = context.output(PointwiseBwdOp::kDX),
          .T = context.input_size(PointwiseBwdOp::kDY, 0),
          .F = context.input_size(PointwiseBwdOp::kDY, 1),
          .activation = activation_of(context.attributes())};
}

AccumulateArgs accumulate_args(const BindContext& context) {
  const int64_t whole = context.output_elements(AccumulateOp::kSum);
  ConstView d = context.input(AccumulateOp::kD);
  Slice slice{.first = 0, .elements = whole, .of = whole};
  if (const std::optional<RankSlices> slices = rank_slices_of(context.attributes())) {
    slice = slice_of_rank(*slices, whole, context.communicator().rank());
    d.data = static_cast<const std::byte*>(d.data) + slice.first * dtype_bytes(d.dtype);
  }
  // The op computes sum = into + d. Without the input `into` it copies d: the output is then passed also as the argument a, which the
  // kernel does not read in this case.
  const ConstView sum = context.output(AccumulateOp::kSum);
  return {{.a = context.has_input(AccumulateOp::kInto) ? context.input(AccumulateOp::kInto) : sum,
           .b = d,
           .c = context.output(AccumulateOp::kSum),
           .n = slice.elements}};
}
AddFwdArgs add_args(const BindContext& context) {
  return {.a = context.input(AddOp::kA),
          .b = context.input(AddOp::kB),
          .c = context.output(AddOp::kC),
          .n = context.output_elements(AddOp::kC)};
}
BiasAddFwdArgs bias_add_args(const BindContext& context) {
  return {.x = context.input(BiasAddOp::kX),
          .b = context.input(BiasAddOp::kBias),
          .y = context.output(BiasAddOp::kY),
          .T = context.output_size(BiasAddOp::kY, 0),
          .C = context.output_size(BiasAddOp::kY, 1)};
}
BiasGradArgs bias_grad_args(const BindContext& context) {
  return {.d_y = context.input(BiasGradOp::kDY),
          .d_b = context.output(BiasGradOp::kDBias),
          .scratch = context.scratch(),
          .T = context.input_size(BiasGradOp::kDY, 0),
          .C = context.input_size(BiasGradOp::kDY, 1)};
}

ScaleShiftFwdArgs scale_shift_args(const BindContext& context) {
  return {.x_hat = context.input(ScaleShiftOp::kN),
          .gain = context.input(ScaleShiftOp::kGain),
          .bias = context.input(ScaleShiftOp::kBias),
          .y = context.output(ScaleShiftOp::kY),
          .T = context.output_size(ScaleShiftOp::kY, 0),
          .C = context.output_size(ScaleShiftOp::kY, 1)};
}
ScaleShiftBwdArgs scale_shift_bwd_args(const BindContext& context) {
  return {.d_y = context.input(ScaleShiftBwdOp::kDY),
          .x_hat = context.input(ScaleShiftBwdOp::kN),
          .gain = context.input(ScaleShiftBwdOp::kGain),
          .d_x_hat = context.output(ScaleShiftBwdOp::kDN),
          .d_gain = context.output(ScaleShiftBwdOp::kDGain),
          .d_bias = context.output(ScaleShiftBwdOp::kDBias),
          .scratch = context.scratch(),
          .T = context.input_size(ScaleShiftBwdOp::kN, 0),
          .C = context.input_size(ScaleShiftBwdOp::kN, 1)};
}

ColumnsFwdArgs columns_args(const BindContext& context) {
  return {.x = context.input(ColumnsOp::kX),
          .y = context.output(ColumnsOp::kY),
          .T = context.input_size(ColumnsOp::kX, 0),
          .N = context.input_size(ColumnsOp::kX, 1),
          .K = context.output_size(ColumnsOp::kY, 1),
          .first = context.attributes().integer("first"),
          .scale = context.attributes().number("scale")};
}
// The op copies the rows that belong to this rank. It uses the kernel that copies some columns of a matrix: here the matrix begins with the
// first row of this rank, and all columns are copied.
ColumnsFwdArgs own_rows_args(const BindContext& context) {
  const ConstView x = context.input(OwnRowsOp::kX);
  const int64_t rows = context.output_size(OwnRowsOp::kY, 0), columns = context.output_size(OwnRowsOp::kY, 1);
  const int64_t first = context.communicator().rank() * rows * columns;
  return {.x = {static_cast<const std::byte*>(x.data) + first * dtype_bytes(x.dtype), x.dtype},
          .y = context.output(OwnRowsOp::kY),
          .T = rows,
          .N = columns,
          .K = columns};
}
AddColumnsFwdArgs add_columns_args(const BindContext& context) {
  return {.x = context.input(AddColumnsOp::kX),
          .y = context.input(AddColumnsOp::kY),
          .z = context.output(AddColumnsOp::kZ),
          .T = context.input_size(AddColumnsOp::kX, 0),
          .N = context.input_size(AddColumnsOp::kX, 1),
          .K = context.input_size(AddColumnsOp::kY, 1),
          .first = context.attributes().integer("first")};
}

CastFwdArgs cast_args(const BindContext& context) {
  return {.x = context.input(CastOp::kX),
          .y = context.output(CastOp::kY),
          .n = context.output_elements(CastOp::kY)};
}
uint64_t first_random_block(const BindContext& context) {
  if (context.view().in_shape(0).row_ranks() == 1) return 0;
  constexpr auto kBlock = static_cast<int64_t>(kHalvesOfBlock);
  const int64_t elements = context.input_elements(0);
  PLIMSOLL_CHECK(
      elements % kBlock == 0,
      "the rows of a rank must have a multiple of {} elements, so that the ranks together draw the same "
      "random numbers as a single rank, but '{}' has {}",
      kBlock, context.view().input(0).name, elements);
  return static_cast<uint64_t>(context.communicator(MeshAxis::kTensor).rank() * elements / kBlock);
}
DropoutFwdArgs dropout_args(const BindContext& context) {
  DropoutColumns columns;
  if (const int64_t ranks = context.attributes().integer_or(kTensorRanks, 1); ranks > 1) {
    columns.C = context.input_size(DropoutOp::kX, 1);
    columns.all = ranks * columns.C;
    columns.first = context.communicator(MeshAxis::kTensor).rank() * columns.C;
  }
  return {.x = context.input(DropoutOp::kX),
          .y = context.output(DropoutOp::kY),
          .n = context.output_elements(DropoutOp::kY),
          .p = context.attributes().number("p"),
          .where = {.site = static_cast<uint32_t>(context.attributes().integer("site")),
                    .first_block = first_random_block(context)},
          .columns = columns};
}
FillArgs fill_args(const BindContext& context) {
  return {.x = context.output(FillOp::kY),
          .count = context.output_elements(FillOp::kY),
          .value = context.attributes().number("value")};
}

DequantizeArgs dequantize_args(const BindContext& context) {
  const Attributes& attributes = context.attributes();
  const auto format = find_quantized_format(attributes.word("format"));
  PLIMSOLL_CHECK(format.has_value(),
                 "dequantize: the attribute 'format' is '{}', which is not a format of quantized weights",
                 attributes.word("format"));
  return {.codes = context.input(DequantizeOp::kCodes),
          .scales = context.input(DequantizeOp::kScales),
          .second_scales = context.input(DequantizeOp::kSecondScales),
          .offsets = context.input(DequantizeOp::kOffsets),
          .w = context.output(DequantizeOp::kWeight),
          .rows = attributes.integer("rows"),
          .columns = attributes.integer("columns"),
          .parts = attributes.integer("parts"),
          .format = *format};
}

QuantizeFp8Args quantize_fp8_args(const BindContext& context) {
  const auto format = parse_dtype(context.attributes().word("format"));
  PLIMSOLL_CHECK(format && is_fp8(*format),
                 "quantize_fp8: the attribute 'format' is '{}', which is not an fp8 type",
                 context.attributes().word("format"));
  return {.x = context.input(QuantizeFp8Op::kX),
          .known = context.input(QuantizeFp8Op::kKnown),
          .q = context.output(QuantizeFp8Op::kQ),
          .q_t = context.output(QuantizeFp8Op::kQT),
          .scale = context.output(QuantizeFp8Op::kScale),
          .rows = context.input_size(QuantizeFp8Op::kX, 0),
          .columns = context.input_size(QuantizeFp8Op::kX, 1),
          .format = *format};
}

std::function<void()> bind_quantize_fp8_cpu(const BindContext& context) {
  const bool has_tokens = context.has_input(QuantizeFp8Op::kCuSeqlens);
  return [run = cpu_function(context.kernel()).as<void(const QuantizeFp8Args&)>(),
          args = quantize_fp8_args(context), flag = AccumulateFlag(context), tokens = NumTokens(context),
          has_tokens]() mutable {
    struct {
      int64_t num_tokens = -1;
    } rows;
    if (has_tokens) tokens.read(rows);
    args.num_rows = rows.num_tokens;
    flag.read(args);
    run(args);
  };
}

std::vector<CopyArgs> copy_args(const BindContext& context) {
  std::vector<CopyArgs> copies;
  const std::optional<Slice> slice = slice_of(context.attributes());
  for (int i = 0; i < context.view().num_outputs(); ++i) {
    const View to = context.output(i);
    const int64_t width = dtype_bytes(to.dtype);
    CopyArgs copy{.from = static_cast<const std::byte*>(context.input(i).data),
                  .to = static_cast<std::byte*>(to.data),
                  .bytes = std::min(context.input_elements(i), context.output_elements(i)) * width};
    if (slice) {
      // One side of the copy is a whole value, and the other side has only a slice of it. The longer one is the whole value.
      const int64_t whole = std::max(context.input_elements(i), context.output_elements(i));
      const int64_t numbers = whole / slice->of;
      copy.from += slice->first_in(context.input_elements(i), numbers) * width;
      copy.to += slice->first_in(context.output_elements(i), numbers) * width;
    }
    copies.push_back(copy);
  }
  return copies;
}

std::function<void()> bind_disk_copy(const BindContext& context) {
  const bool reads = reads_disk(context.view().graph, context.op());
  if (!reads && !writes_disk(context.view().graph, context.op())) return nullptr;
  const std::optional<Slice> slice = slice_of(context.attributes());
  std::vector<DiskTransfer::Part> parts;
  for (int i = 0; i < context.view().num_outputs(); ++i) {
    const auto k = static_cast<size_t>(i);
    const ValueId on_disk = reads ? context.op().inputs[k] : context.op().outputs[k];
    const int64_t whole = reads ? context.input_elements(i) : context.output_elements(i);
    const int64_t count = reads ? context.output_elements(i) : context.input_elements(i);
    const int64_t width = dtype_bytes(reads ? context.output(i).dtype : context.input(i).dtype);
    // The const_cast is safe, because the memory of an input is only read.
    void* memory = reads ? context.output(i).data : const_cast<void*>(context.input(i).data);
    const int64_t first = slice ? slice->first_in(whole, whole / slice->of) : 0;
    const int64_t begin = context.offset_of(on_disk);
    parts.push_back({.memory = static_cast<std::byte*>(memory),
                     .offset = begin + first * width,
                     .bytes = count * width,
                     .value_end = begin + whole * width});
  }
  const auto direction = reads ? TransferDirection::kFromDisk : TransferDirection::kToDisk;
  return [&disk = context.disk(), transfer = std::make_shared<DiskTransfer>(direction, parts),
          end = context.queue_end()] { disk.start(transfer, end); };
}

std::function<void()> bind_copy_cpu(const BindContext& context) {
  if (std::function<void()> transfer = bind_disk_copy(context)) return transfer;
  return [copies = copy_args(context), run = cpu_function(context.kernel()).as<void(const CopyArgs&)>()] {
    for (const CopyArgs& copy : copies) run(copy);
  };
}

}  // namespace plimsoll
