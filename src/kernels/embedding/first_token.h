// Extracts the row of one token of each sequence, and computes the gradient of this extraction. The token is the first token ([CLS], which
// an encoder's classifier reads) or the last token (which a decoder's classifier reads). The header states the contract of these kernels,
// which allocate no memory.
//
// row(b) = cu_seqlens[b] for the first token, cu_seqlens[b + 1] - 1 for the last
// fwd:  out[b, c] = x[row(b), c] if cu_seqlens[b] < cu_seqlens[b + 1], else 0
// bwd:  d_x[row(b), c] = d_out[b, c] if cu_seqlens[b] < cu_seqlens[b + 1]; every other element of d_x is 0
//
// Legend: T rows (one per token, then unused tail rows), C columns, B sequences (unused ones are empty); row-major and dense.
// cu_seqlens[B + 1] is i32. Types: x and out f32 or bf16, equal or not (a copy, or one rounding); the references take any floating type.
// Error: none except the rounding of the store. Repeatability: the same bits everywhere. Scratch: none. Aliasing: outputs overlap no
// operand. Cost: fwd 2 B C elements moved; bwd T C written. Requires: cu_seqlens rises from 0 to at most T; the caller has validated it and
// the kernels do not check. Thread-safe: distinct calls may run concurrently on distinct outputs. Ownership: views do not own memory.
// Errors: kInternal if a view is absent or has an unsupported type.
#pragma once

#include <cstdint>

#include "base/view.h"
#include "device/cuda/stream.h"

namespace plimsoll {

enum class SequenceRow : uint8_t { kFirst, kLast };

// Returns row(b) of a sequence that is not empty.
constexpr int64_t row_of_sequence(const int32_t* cu_seqlens, int64_t b, SequenceRow row) {
  return row == SequenceRow::kFirst ? cu_seqlens[b] : cu_seqlens[b + 1] - 1;
}

struct FirstTokenFwdArgs {
  ConstView x;           // input, shape [T, C]
  ConstView cu_seqlens;  // first row of each sequence and end of the last one, i32, shape [B + 1]
  View out;              // output, shape [B, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t B = 0;
  SequenceRow row = SequenceRow::kFirst;
};
void first_token_fwd_ref(const FirstTokenFwdArgs& args);
void first_token_fwd_cpu(const FirstTokenFwdArgs& args);

struct FirstTokenBwdArgs {
  ConstView d_out;       // gradient of out, shape [B, C]
  ConstView cu_seqlens;  // first row of each sequence and end of the last one, i32, shape [B + 1]
  View d_x;              // output, the gradient of x, shape [T, C]
  int64_t T = 0;
  int64_t C = 0;
  int64_t B = 0;
  SequenceRow row = SequenceRow::kFirst;
};
void first_token_bwd_ref(const FirstTokenBwdArgs& args);
void first_token_bwd_cpu(const FirstTokenBwdArgs& args);

// The functions below run on an NVIDIA GPU. element_wise/add.h states the rules for all CUDA kernels. x
// and out may each be f32, bf16 or f16.

void first_token_fwd_cuda(const FirstTokenFwdArgs& args, CudaStream stream);
void first_token_bwd_cuda(const FirstTokenBwdArgs& args, CudaStream stream);

}  // namespace plimsoll
