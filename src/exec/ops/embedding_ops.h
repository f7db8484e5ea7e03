// The arguments of kernels that read or write rows of tables. Thread-safe: pure functions.
#pragma once

#include "exec/bound_op.h"
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/sort_ids.h"

namespace plimsoll {

EmbeddingSumFwdArgs embedding_sum_args(const BindContext& context);
EmbeddingBwdArgs embedding_bwd_args(const BindContext& context);
SortIdsArgs sort_ids_args(const BindContext& context);
FirstTokenFwdArgs first_token_args(const BindContext& context);
FirstTokenBwdArgs first_token_bwd_args(const BindContext& context);

}  // namespace plimsoll
