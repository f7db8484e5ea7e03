// The arguments of attention kernels. Thread-safe: pure functions.
#pragma once

#include <functional>

#include "exec/bound_op.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/first_token_attention.h"

namespace plimsoll {

AttentionFwdArgs attention_args(const BindContext& context);
AttentionBwdArgs attention_bwd_args(const BindContext& context);
FirstTokenAttentionArgs first_token_attention_args(const BindContext& context);

std::function<void()> bind_attention_cpu(const BindContext& context);
std::function<void()> bind_attention_bwd_cpu(const BindContext& context);
std::function<void()> bind_first_token_attention_cpu(const BindContext& context);

}  // namespace plimsoll
