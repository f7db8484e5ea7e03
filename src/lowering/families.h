// The rows of each family. Only for lowering.cc and the families' own files.
#pragma once

#include <vector>

#include "lowering/lowering.h"

namespace plimsoll {

std::vector<Lowering> matmul_lowerings();
std::vector<Lowering> embedding_lowerings();
std::vector<Lowering> element_wise_lowerings();
std::vector<Lowering> norm_lowerings();
std::vector<Lowering> attention_lowerings();
std::vector<Lowering> loss_lowerings();
std::vector<Lowering> optimizer_lowerings();
std::vector<Lowering> quantization_lowerings();

// Describes an op by the rows and columns of input kInput; a value that is not a matrix is one row.
LoweredOp describe_rows_of(const Value& value, const Bucket& bucket);
template <int kInput>
LoweredOp describe_rows(const OpView& op, const Bucket& bucket, const KernelTarget&) {
  return describe_rows_of(op.input(kInput), bucket);
}

// Describes an op whose kernels accept every problem and need no scratch. Input kInput has the type of its activations.
template <int kInput>
LoweredOp describe_type(const OpView& op, const Bucket&, const KernelTarget&) {
  return {.dtype = op.input(kInput).type.dtype};
}

}  // namespace plimsoll
