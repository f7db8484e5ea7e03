#include "plan/anatomy/generation.h"

#include <algorithm>
#include <set>

#include "graph/ops/ops.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/op_times.h"

namespace plimsoll {

CacheAnatomy cache_anatomy(const Plan& plan) {
  const GenerationOptions& options = plan.request.generation;
  CacheAnatomy anatomy{.num_pages = options.num_pages, .per_prompt = sequence_pages(options.sizes)};
  for (const auto& [window, bytes] : decode_reads(plan).cache_bytes_per_token)
    anatomy.bytes_per_token += bytes;
  anatomy.page_bytes = anatomy.bytes_per_token * options.page_size;
  return anatomy;
}

int64_t DecodeReads::cache_bytes(int64_t length) const {
  int64_t bytes = 0;
  for (const auto& [window, bytes_per_token] : cache_bytes_per_token)
    bytes += bytes_per_token * (window > 0 ? std::min(window, length) : length);
  return bytes;
}

DecodeReads decode_reads(const Plan& plan) {
  DecodeReads reads;
  const Graph& graph = plan.programs.at(kGenerateProgram).graph;
  std::set<ValueId> weights;
  for (const Op& op : graph.ops()) {
    if (op.def == &paged_attention_op()) {
      const ValueType& cache = graph.value(op.inputs[PagedAttentionOp::kCache]).type;
      reads.cache_bytes_per_token[op.attributes.integer_or("window", 0)] +=
          cache.shape[1].offset * cache.shape[3].offset * dtype_bytes(cache.dtype);
    }
    if (op.def == &embedding_sum_op()) continue;
    for (const ValueId input : op.inputs) {
      if (input != kNoValue && graph.value(input).storage == Storage::kWeight) weights.insert(input);
    }
  }
  for (const ValueId weight : weights) reads.weight_bytes += graph.value(weight).bytes({});
  return reads;
}

GenerationEstimate generation_estimate(const Plan& plan) {
  const ProgramPlan& program = plan.programs.at(kGenerateProgram);
  const PlanRequest& request = plan.request;
  const GenerationSizes& sizes = request.generation.sizes;
  GenerationEstimate estimate{.prefill_ms = operations_anatomy(plan).total().ms};
  const int64_t sequences = program.bucket.sequences;
  const Bucket one_token{.tokens = sequences, .sequences = sequences, .longest = 1};
  const int64_t length = sizes.longest_prompt + sizes.max_new_tokens / 2;
  double logits_bytes = 0;
  for (const Op& op : program.graph.ops()) {
    const OpView view{program.graph, op};
    const OpSchema& schema = schema_of(op);
    const Cost cost = op.def == &paged_attention_op() ? paged_attention_cost(view, one_token, length)
                                                      : schema.cost(view, one_token);
    estimate.decode_run_ms += estimated_decode_ms(schema, view, cost, one_token, request);
    for (const ValueId output : op.outputs) {
      const Value& value = program.graph.value(output);
      if (value.storage == Storage::kOutput) logits_bytes += static_cast<double>(value.bytes(one_token));
    }
  }
  if (plan.is_on_gpu()) estimate.decode_run_ms += logits_bytes / link_bytes_per_ms(request, LinkUse::kOneWay);
  estimate.decode_run_ms += time_between_decode_runs_ms(request);
  const auto texts = static_cast<double>(sizes.prompts_at_once * sizes.texts_per_prompt);
  if (estimate.decode_run_ms > 0) estimate.new_tokens_per_s = 1e3 * texts / estimate.decode_run_ms;
  return estimate;
}

}  // namespace plimsoll
