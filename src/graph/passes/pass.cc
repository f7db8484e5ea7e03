#include "graph/passes/pass.h"

#include <chrono>

#include "graph/ir/text.h"
#include "graph/ir/verify.h"
#include "graph/passes/quantized_weights.h"

namespace plimsoll {

void PassManager::run(Graph& graph, const Pass& pass) {
  const bool off =
      options_.disabled.contains(pass.name) || (options_.stop_after >= 0 && ran_ >= options_.stop_after);
  PassRecord record{.name = std::string(pass.name), .ran = !off, .ops_before = graph.ops().size()};
  if (!off) {
    ++ran_;
    const auto start = std::chrono::steady_clock::now();
    pass.run(graph);
    record.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    verify(graph, "after pass '" + std::string(pass.name) + "'");
    if (options_.dump) options_.dump(pass.name, print_graph(graph));
  }
  record.ops_after = graph.ops().size();
  records_.push_back(std::move(record));
}

std::vector<PassInfo> all_passes() {
  std::vector<PassInfo> infos;
  for (const Pass& pass :
       {unread_rows_pass(), precision_pass(DType::kBF16), frozen_weights_pass(DType::kBF16, {}),
        quantized_weights_pass("nf4", {}), fuse_pass(), weight_copies_pass(DType::kBF16),
        split_weights_pass(DType::kBF16), copies_at_use_pass(DType::kF16), common_subexpression_pass(),
        dead_code_pass({}), accumulate_pass(), recompute_pass({}), reorder_pass({}), in_place_pass(),
        offload_activations_pass({}, 0), offload_states_pass()}) {
    infos.push_back({pass.name, pass.numerics, pass.help});
  }
  return infos;
}

}  // namespace plimsoll
