// Lowers element-wise ops and ops that sum over rows, that is, describes them as problems for their kernels.
#include "graph/ops/ops.h"
#include "lowering/lowering.h"

namespace plimsoll {
namespace {

// Describes a copy. It moves bytes of any element type, so its kernels are listed in the catalog under a fixed type, fp32.
LoweredOp describe_copy(const OpView&, const Bucket&, const KernelTarget&) {
  return {.dtype = DType::kF32};
}

LoweredOp describe_own_rows(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_rows_of(op.output(OwnRowsOp::kY), bucket);
}

LoweredOp describe_accumulate(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_rows_of(op.output(AccumulateOp::kSum), bucket);
}

}  // namespace

std::vector<Lowering> element_wise_lowerings() {
  return {{&accumulate_op(), "accumulate", describe_accumulate},
          {&add_op(), "add_fwd", describe_rows<AddOp::kA>},
          {&add_columns_op(), "add_columns_fwd", describe_rows<AddColumnsOp::kX>},
          {&bias_add_op(), "bias_add_fwd", describe_rows<BiasAddOp::kX>},
          {&bias_gelu_op(), "bias_gelu_fwd", describe_rows<BiasGeluOp::kH>},
          {&bias_gelu_bwd_op(), "bias_gelu_bwd", describe_rows<BiasGeluBwdOp::kH>},
          {&bias_grad_op(), "bias_grad", describe_rows<BiasGradOp::kDY>},
          {&cast_op(), "cast_fwd", describe_rows<CastOp::kX>},
          {&columns_op(), "columns_fwd", describe_rows<ColumnsOp::kX>},
          {&copy_op(), "copy", describe_copy},
          {&dropout_op(), "dropout_fwd", describe_rows<DropoutOp::kX>},
          {&gelu_op(), "gelu_fwd", describe_rows<PointwiseOp::kX>},
          {&gelu_bwd_op(), "gelu_bwd", describe_rows<PointwiseBwdOp::kSaved>},
          {&glu_op(), "glu_fwd", describe_rows<PointwiseOp::kX>},
          {&glu_bwd_op(), "glu_bwd", describe_rows<PointwiseBwdOp::kDY>},
          {&own_rows_op(), "columns_fwd", describe_own_rows},
          {&relu_op(), "relu_fwd", describe_rows<PointwiseOp::kX>},
          {&relu_bwd_op(), "relu_bwd", describe_rows<PointwiseBwdOp::kSaved>},
          {&scale_shift_op(), "scale_shift_fwd", describe_rows<ScaleShiftOp::kN>},
          {&scale_shift_bwd_op(), "scale_shift_bwd", describe_rows<ScaleShiftBwdOp::kDY>},
          {&tanh_op(), "tanh_fwd", describe_rows<PointwiseOp::kX>},
          {&tanh_bwd_op(), "tanh_bwd", describe_rows<PointwiseBwdOp::kSaved>}};
}

}  // namespace plimsoll
