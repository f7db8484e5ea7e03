// All ops: the names of their operands, their schemas and typed functions that emit them. The comments that describe ops list attributes in
// braces and mark optional operands with "?". An input that is called optional may be kNoValue. Shape letters: T tokens, B sequences, C
// width, K classes, H heads, D width of a head.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/class_columns.h"
#include "base/fused_layer.h"
#include "base/optimizer_table.h"
#include "graph/ops/op.h"

namespace plimsoll {

// Returns the definition of the op `name`, or null if there is none. The function can be passed as an OpLookup (graph/ir/graph_text.h).
const OpDef* find_op(std::string_view name);
// Returns every schema, in alphabetical order.
std::span<const OpSchema* const> all_ops();

enum class MatmulTranspose : uint8_t { kNo, kYes };

// For each op, a struct with the names of its operands. An enumerator is the position of an input or output, and also its row in the
// operand table. If an op has conditional outputs (bias_dropout_residual_norm_bwd), an output may be at an earlier position than its row of
// the table, because absent outputs leave no gap. d_x is the gradient of x.

struct MatmulOp {
  enum In { kA, kB, kBias, kInto, kFlag };
  enum Out { kC };
};
// The first five inputs are the same, and at the same positions, as those of MatmulOp.
struct ScaledMatmulOp {
  enum In { kA, kB, kBias, kInto, kFlag, kAScale, kBScale };
  enum Out { kC };
};
struct LinearAddOp {
  enum In { kX, kW, kResidual };
  enum Out { kY };
};
struct LinearGeluOp {
  enum In { kX, kW, kBias };
  enum Out { kY };
};
struct LinearNormOp {
  enum In { kX, kW, kBias, kResidual, kGain, kBeta };
  enum Out { kY };
};
struct NormLinearOp {
  enum In { kX, kW, kBias, kResidual, kNormBias, kGain, kBeta };
  enum Out { kY, kSum };
  // Return the values of the attributes "norm" and "end". Errors: kInternal if a value is not a name in base/fused_layer.h.
  static NormKind norm(const Attributes& attributes);
  static LayerEnd end(const Attributes& attributes);
};
struct AttentionOp {
  enum In { kQkv, kCuSeqlens, kRng };
  enum Out { kO, kLse };
};
struct AttentionBwdOp {
  enum In { kQkv, kCuSeqlens, kRng, kO, kLse, kDO };
  enum Out { kDQkv };
};
// The first four inputs are the same, and at the same positions, as those of PagedAttentionOp.
struct AppendKvOp {
  enum In { kQkv, kCuSeqlens, kPageTable, kLengths, kCopyFrom, kCache };
  enum Out { kNewCache };
};
struct PagedAttentionOp {
  enum In { kQkv, kCuSeqlens, kPageTable, kLengths, kCache };
  enum Out { kO };
};
struct FirstTokenAttentionOp {
  enum In { kX, kW, kBias, kCuSeqlens };
  enum Out { kO };
};

struct BiasDropoutResidualNormOp {
  enum In { kX, kBias, kResidual, kGain, kBeta, kRng };
  enum Out { kY, kN, kRstd, kSum };
};
struct BiasDropoutResidualNormBwdOp {
  enum In { kDY, kDY2, kN, kRstd, kGain, kRng, kIntoGain, kIntoBeta, kIntoBias, kFlag, kDSumTerm };
  enum Out { kDSum, kDX, kDGain, kDBeta, kDBias };
};
struct NormalizeOp {
  enum In { kX };
  enum Out { kN, kRstd };
};
struct NormalizeBwdOp {
  enum In { kN, kRstd, kDN };
  enum Out { kDX };
};
struct RmsNormOp {
  enum In { kX, kGain, kSecondGain, kResidual };
  enum Out { kY, kRstd, kSum };
};
struct RmsNormBwdOp {
  enum In { kDY, kX, kGain, kSecondGain, kRstd, kIntoGain, kIntoSecond, kFlag, kDSumTerm };
  enum Out { kDX, kDGain, kDSecond };
};
struct ScaleShiftOp {
  enum In { kN, kGain, kBias };
  enum Out { kY };
};
struct ScaleShiftBwdOp {
  enum In { kN, kGain, kDY, kIntoGain, kIntoBias, kFlag };
  enum Out { kDN, kDGain, kDBias };
};

// Element-wise ops. PointwiseOp names the operands of gelu, glu, relu and tanh, and PointwiseBwdOp those of their backward ops.
struct PointwiseOp {
  enum In { kX };
  enum Out { kY };
};
struct PointwiseBwdOp {
  enum In { kSaved, kDY };  // kSaved: x or y of the forward op
  enum Out { kDX };
};
struct AccumulateOp {
  enum In { kInto, kFlag, kD };
  enum Out { kSum };
};
struct AddOp {
  enum In { kA, kB };
  enum Out { kC };
};
struct AddColumnsOp {
  enum In { kX, kY };
  enum Out { kZ };
};
struct BiasAddOp {
  enum In { kX, kBias };
  enum Out { kY };
};
struct BiasGeluOp {
  enum In { kH, kBias };
  enum Out { kY };
};
struct BiasGeluBwdOp {
  enum In { kH, kBias, kDY, kIntoBias, kFlag };
  enum Out { kDH, kDBias };
};
struct BiasGradOp {
  enum In { kDY, kInto, kFlag };
  enum Out { kDBias };
};
struct CastOp {
  enum In { kX };
  enum Out { kY };
};
struct ColumnsOp {
  enum In { kX };
  enum Out { kY };
};
struct DropoutOp {
  enum In { kX, kRng };
  enum Out { kY };
};

// Embeddings and rows of sequences. The operands `ids` and `table` of embedding_sum are repeated for each table, and so is the operand
// `ids` of sort_ids.
struct EmbeddingSumOp {
  enum In { kCuSeqlens, kIds, kTable };
  enum Out { kX };
};
// The name of an attribute of embedding_bwd. Its value is the number of rows of the table that each rank of a tensor-parallel group stores.
inline constexpr std::string_view kRankRows = "rank_rows";
struct EmbeddingBwdOp {
  enum In { kSorted, kDX, kInto, kFlag };
  enum Out { kDTable };
};
struct SortIdsOp {
  enum In { kCuSeqlens, kIds };
  enum Out { kSorted };
};
struct RopeTableOp {
  enum In { kPositions, kCuSeqlens };
  enum Out { kTable };
};
struct RopeOp {
  enum In { kX, kTable };
  enum Out { kY };
};
struct FirstTokenOp {
  enum In { kX, kCuSeqlens };
  enum Out { kY };
};
struct FirstTokenBwdOp {
  enum In { kDY, kCuSeqlens };
  enum Out { kDX };
};

struct SequenceMeanOp {
  enum In { kX, kCuSeqlens };
  enum Out { kY };
};
struct SequenceMeanBwdOp {
  enum In { kDY, kCuSeqlens };
  enum Out { kDX };
};

// Losses. ClassLossOp contains the operands of nll, where kLogits is the input of log-probabilities, and of softmax_cross_entropy, which
// has the output kZLoss if it has the attribute kZCoefficient. ElementLossOp contains the operands of mse and bce_with_logits.
inline constexpr std::string_view kZCoefficient = "z_loss";
struct ClassLossOp {
  enum In { kLogits, kLabels, kDenominator };
  enum Out { kLoss, kZLoss };
};
// Returns the attributes of a loss that determine its value: the label smoothing and, if there is one, the factor of the z-loss.
Attributes class_loss_attributes(const Attributes& of_op);
inline double z_coefficient_of(const Attributes& of_op) {
  return of_op.has(kZCoefficient) ? of_op.number(kZCoefficient) : 0.0;
}
struct ClassLossBwdOp {
  enum In { kLogits, kLabels, kDenominator, kDLoss };
  enum Out { kDLogits };
};
struct CountCorrectOp {
  enum In { kLogits, kLabels };
  enum Out { kCount };
};
struct TopLogitsOp {
  enum In { kLogits };
  enum Out { kValues, kIds, kLogSum };
};
// The ops that compute a cross entropy if the ranks of a tensor-parallel group divide the classes: sums per rank, then the loss.
struct ClassSumsOp {
  enum In { kLogits, kLabels };
  enum Out { kSums };
};
struct ClassSumsBwdOp {
  enum In { kLogits, kLabels, kDSums };
  enum Out { kDLogits };
};
struct ClassSumsLossOp {
  enum In { kSums, kLabels, kDenominator };
  enum Out { kLoss, kNumCorrect, kZLoss = kNumCorrect };
};
struct ClassSumsLossBwdOp {
  enum In { kSums, kLabels, kDenominator, kDLoss };
  enum Out { kDSums };
};
struct LinearClassSumsOp {
  enum In { kX, kW, kBias, kLabels };
  enum Out { kSums };
};
struct LinearClassSumsBwdOp {
  enum In { kX, kW, kBias, kLabels, kDSums };
  enum Out { kDX };
};
struct LinearClassSumsGradOp {
  enum In { kX, kW, kBias, kLabels, kDSums, kIntoW, kIntoBias, kFlag };
  enum Out { kDW, kDBias };
};
struct LinearClassSumsGradientsOp {
  enum In { kX, kW, kBias, kLabels, kDSums, kIntoW, kIntoBias, kFlag };
  enum Out { kDX, kDW, kDBias };
};
// Returns which column of `sums`, the output of class_sums, contains which sum, such as the logarithm of the sum of exponentials of a rank.
// The columns depend on the attributes of that op.
ClassColumns class_columns_of(const Attributes& attributes);
// Returns the type of the output of class_sums for `rows` rows of logits of type `logits`.
ValueType class_sums_type(DType logits, const Dim& rows, const Attributes& attributes);
// The name of the attribute of class_sums with the number of classes of all ranks together, and of the attribute of class_sums_loss with
// the number of classes per rank.
inline constexpr std::string_view kAllClasses = "classes";
inline constexpr std::string_view kRankClasses = "rank_classes";

struct ElementLossOp {
  enum In { kLogits, kLabels, kDenominator, kNumSequences };
  enum Out { kLoss };
};
struct ElementLossBwdOp {
  enum In { kLogits, kLabels, kDenominator, kNumSequences, kDLoss };
  enum Out { kDLogits };
};
struct LinearCrossEntropyOp {
  enum In { kX, kW, kBias, kLabels, kDenominator };
  // The second output of linear_cross_entropy is either the number of correct predictions, in evaluations, or the z-loss, in training. No
  // op has both.
  enum Out { kLoss, kNumCorrect, kZLoss = kNumCorrect };
};
struct LinearCrossEntropyBwdOp {
  enum In { kX, kW, kBias, kLabels, kDenominator, kDLoss };
  enum Out { kDX };
};
struct LinearCrossEntropyGradOp {
  enum In { kX, kW, kBias, kLabels, kDenominator, kDLoss, kIntoW, kIntoBias, kFlag };
  enum Out { kDW, kDBias };
};
struct LinearCrossEntropyWithGradientsOp {
  enum In { kX, kW, kBias, kLabels, kDenominator, kDLoss, kIntoW, kIntoBias, kFlag };
  enum Out { kLoss, kZLoss, kDX, kDW, kDBias };
};
struct LogSoftmaxOp {
  enum In { kX };
  enum Out { kY };
};
struct LogSoftmaxBwdOp {
  enum In { kY, kDY };
  enum Out { kDX };
};

// Optimizers. UpdateOp contains the operands of the update ops of all optimizers, in which parameter, gradient and states repeat for each
// parameter (update.h).
struct UpdateOp {
  enum In { kLearningRate, kStep, kClip, kFinite, kParameter, kGradient, kState };
  enum Out { kNewParameter, kNewState };
};
struct GlobalNormOp {
  enum In { kGradient, kLoss };
  enum Out { kNorm, kFinite, kFirstBad };
};
struct ClipCoefficientOp {
  enum In { kNorm, kScale };
  enum Out { kCoefficient };
};
struct AdjustLossScaleOp {
  enum In { kNorm, kFinite, kScale, kGoodSteps, kSkipped };
  enum Out { kNewScale, kNewGoodSteps, kNewSkipped, kUnscaledNorm, kUsedScale, kSkippedOut };
};

// Data movement. An op that copies has three lists of inputs: values to read, values to overwrite, and values to wait for (copy.cc). The
// enumerators kFrom, kInto and kAfter are the rows of these lists in the operand table.
struct CopyOp {
  enum In { kFrom, kInto, kAfter };
  enum Out { kTo };
};
struct DequantizeOp {
  enum In { kCodes, kScales, kSecondScales, kOffsets };
  enum Out { kWeight };
};
struct QuantizeFp8Op {
  enum In { kX, kKnown, kIntoQ, kIntoQT, kIntoScale, kFlag, kCuSeqlens };
  enum Out { kQ, kQT, kScale };
};
struct FillOp {
  enum In { kLike };
  enum Out { kY };
};

// Communication. maps_peers() and set_maps_peers() read and write the attribute "peers" of collective ops, which states that the GPUs of
// the ranks map each other's memory and exchange data without a communication library.
inline bool maps_peers(const Attributes& attributes) {
  return attributes.integer_or("peers", 0) != 0;
}
inline void set_maps_peers(Attributes& attributes) {
  attributes.set("peers", 1);
}

struct AllReduceOp {
  enum In { kX };
  enum Out { kY };
  static int64_t num_ranks(const Attributes& attributes) { return attributes.integer("ranks"); }
};

// Sends a value to another pipeline stage. kRoom is a persistent buffer that contains the value until it has arrived.
struct SendOp {
  enum In { kX, kRoom };
  enum Out { kMessage };
  static int64_t to(const Attributes& attributes) { return attributes.integer("to"); }
};
struct ReceiveOp {
  enum Out { kY };
  static int64_t from(const Attributes& attributes) { return attributes.integer("from"); }
};

// The operands of all_gather and reduce_scatter. Each rank of a group has one slice of the value (slice.h).
struct RankSlicesOp {
  enum In { kX };
  enum Out { kY };
};

// Ops that gather, select or exchange rows if the ranks divide the rows of activations among them (sequence or context parallelism).
struct GatherRowsOp {
  enum In { kX };
  enum Out { kY };
};
struct OwnRowsOp {
  enum In { kX };
  enum Out { kY };
};
struct ExchangeHeadsOp {
  enum In { kX };
  enum Out { kY };
  static bool is_to_heads(const Attributes& attributes) { return attributes.word("to") == "heads"; }
};
// Returns the attributes of exchange_heads. That op exchanges data between ranks, so that a rank with some rows of all attention heads gets
// all rows of some heads, or the reverse. A row has `first` columns of queries, then `others` columns of keys and `others` columns of
// values.
Attributes exchange_heads_attributes(int64_t ranks, int64_t first, int64_t others, bool to_heads);
// Tells how the gradients that the ranks compute for gathered rows are related: kPart if the gradient is the sum of the ranks' results,
// kWhole if every rank computes the whole gradient.
enum class RowGradient : uint8_t { kPart, kWhole };
// Returns the attributes of a collective op for which each rank of a tensor-parallel group has one of `ranks` equal parts of the rows.
Attributes attributes_of_row_slices(int64_t ranks);
Attributes gather_rows_attributes(int64_t ranks, RowGradient gradient);

const OpSchema& accumulate_op();
const OpSchema& adjust_loss_scale_op();
const OpSchema& add_columns_op();
const OpSchema& add_op();
const OpSchema& all_gather_op();
const OpSchema& all_reduce_op();
const OpSchema& append_kv_op();
const OpSchema& attention_op();
const OpSchema& attention_bwd_op();
const OpSchema& bce_with_logits_op();
const OpSchema& bce_with_logits_bwd_op();
const OpSchema& bias_add_op();
const OpSchema& bias_dropout_residual_norm_op();
const OpSchema& bias_dropout_residual_norm_bwd_op();
const OpSchema& bias_gelu_op();
const OpSchema& bias_gelu_bwd_op();
const OpSchema& bias_grad_op();
const OpSchema& cast_op();
const OpSchema& class_sums_op();
const OpSchema& class_sums_bwd_op();
const OpSchema& class_sums_loss_op();
const OpSchema& class_sums_loss_bwd_op();
const OpSchema& clip_coefficient_op();
const OpSchema& columns_op();
const OpSchema& copy_op();
const OpSchema& dropout_op();
const OpSchema& embedding_bwd_op();
const OpSchema& embedding_sum_op();
const OpSchema& fill_op();
const OpSchema& first_token_op();
const OpSchema& first_token_attention_op();
const OpSchema& first_token_bwd_op();
// Returns true if these attributes of the op first_token select the last token of each sequence instead of the first.
inline bool reads_last_token(const Attributes& attributes) {
  return attributes.integer_or("last", 0) != 0;
}
const OpSchema& exchange_heads_op();
const OpSchema& gather_rows_op();
const OpSchema& gelu_op();
const OpSchema& gelu_bwd_op();
const OpSchema& global_norm_op();
const OpSchema& count_correct_op();
const OpSchema& top_logits_op();
const OpSchema& glu_op();
const OpSchema& glu_bwd_op();
const OpSchema& linear_class_sums_op();
const OpSchema& linear_class_sums_bwd_op();
const OpSchema& linear_class_sums_grad_op();
const OpSchema& linear_class_sums_gradients_op();
const OpSchema& linear_cross_entropy_op();
const OpSchema& linear_cross_entropy_bwd_op();
const OpSchema& linear_cross_entropy_grad_op();
const OpSchema& linear_cross_entropy_with_gradients_op();
const OpSchema& linear_add_op();
const OpSchema& linear_gelu_op();
const OpSchema& linear_norm_op();
const OpSchema& norm_linear_op();
const OpSchema& log_softmax_op();
const OpSchema& log_softmax_bwd_op();
const OpSchema& matmul_op();
const OpSchema& mse_op();
const OpSchema& mse_bwd_op();
const OpSchema& nll_op();
const OpSchema& nll_bwd_op();
const OpSchema& normalize_op();
const OpSchema& normalize_bwd_op();
const OpSchema& own_rows_op();
const OpSchema& paged_attention_op();
// Returns the cost of paged_attention if every sequence has `length` tokens in the KV cache and no two sequences share cache pages.
Cost paged_attention_cost(const OpView& op, const Bucket& bucket, int64_t length);
const OpSchema& quantize_fp8_op();
const OpSchema& receive_op();
const OpSchema& reduce_scatter_op();
const OpSchema& relu_op();
const OpSchema& relu_bwd_op();
const OpSchema& rms_norm_op();
const OpSchema& rms_norm_bwd_op();
const OpSchema& rope_op();
const OpSchema& rope_table_op();
const OpSchema& scale_shift_op();
const OpSchema& scale_shift_bwd_op();
const OpSchema& scaled_matmul_op();
const OpSchema& send_op();
const OpSchema& sequence_mean_op();
const OpSchema& sequence_mean_bwd_op();
const OpSchema& softmax_cross_entropy_op();
const OpSchema& softmax_cross_entropy_bwd_op();
const OpSchema& sort_ids_op();
const OpSchema& tanh_op();
const OpSchema& tanh_bwd_op();
// Returns the op that updates parameters with this optimizer.
const OpSchema& update_op(OptimizerKind kind);

// Returns the gradients of a global_norm: all inputs except the loss, which only contributes to `finite`.
std::span<const ValueId> gradients_of_norm(const Op& norm);

// Returns the values that a copy reads, without those that it only overwrites or waits for.
std::span<const ValueId> copied_values(const Op& copy);

// The parameters of a dropout op: the probability p of dropping an element, and `site`, a number that separates the random numbers of this
// op from those of other ops (base/philox.h).
struct DropoutSpec {
  double p = 0.0;
  int64_t site = 0;
};

// Emits an op and returns its first output. The output is named `name`, or `name` followed by a number if that name is taken.
ValueId emit(Graph& graph, const OpSchema& def, ValueIds inputs, Attributes attributes = {},
             std::string_view name = {});
// Emits an op and returns all outputs.
std::vector<ValueId> emit_all(Graph& graph, const OpSchema& def, ValueIds inputs, Attributes attributes = {},
                              std::span<const std::string> names = {});

// Emits the matrix product of a and b, each transposed if trans_a or trans_b says so: [m,k] x [k,n] -> [m,n]. The result has the type of a
// unless `dtype` states another.
ValueId emit_matmul(Graph& graph, ValueId a, MatmulTranspose trans_a, ValueId b, MatmulTranspose trans_b,
                    std::string_view name = {}, std::optional<DType> dtype = {});
// Emits x_TK w_NK^T + b_N -> [T,N] as matmul and bias_add; bias is optional.
ValueId emit_linear(Graph& graph, ValueId x, ValueId weight, ValueId bias, std::string_view name = {});
// Emits the sum of a value over the ranks of a tensor-parallel group. The sum overwrites the value.
ValueId emit_tensor_sum(Graph& graph, ValueId x, int64_t ranks);
// Emits own_rows, which selects the rows of this rank from a value that every rank has.
ValueId emit_own_rows(Graph& graph, ValueId x, int64_t ranks);
// Emits reduce_scatter and own_rows: the sum of x over the ranks of a tensor-parallel group, of which this rank gets its own rows.
// Overwrites x.
ValueId emit_scatter_rows(Graph& graph, ValueId x, int64_t ranks);
// Emits an op that sends a value to a pipeline stage, and declares the persistent buffer "message/<name>" from which the value is sent.
inline constexpr std::string_view kMessagePrefix = "message/";
void emit_send(Graph& graph, ValueId x, int64_t to, std::string_view name, bool zero_tail);
// Emits an op that receives a value of this type from a pipeline stage.
ValueId emit_receive(Graph& graph, const ValueType& type, int64_t from, std::string_view name,
                     bool zero_tail);
ValueId emit_dropout(Graph& graph, ValueId x, ValueId rng, const DropoutSpec& spec,
                     std::string_view name = {});
// Emits normalize and scale_shift: [T,C] -> [T,C]; bias is optional.
ValueId emit_layer_norm(Graph& graph, ValueId x, ValueId gain, ValueId bias, double eps,
                        std::string_view name = {});

}  // namespace plimsoll
