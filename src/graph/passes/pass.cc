#include "graph/passes/pass.h"

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "graph/ir/graph.h"
#include "graph/ir/graph_text.h"

namespace plimsoll {

namespace {

std::vector<PassInfo> list_passes() {
  std::vector<PassInfo> infos;
  for (const Pass& pass : {tensor_parallel_pass(1, DividedHeads::kYes),
                           unread_rows_pass(),
                           sequence_parallel_pass(1),
                           context_parallel_pass(1),
                           precision_pass(DType::kBF16),
                           pipeline_stage_pass({}),
                           fuse_pass(),
                           quantized_weights_pass("nf4", {}),
                           frozen_weights_pass(DType::kBF16, {}),
                           weight_copies_pass(DType::kBF16),
                           split_weights_pass(DType::kBF16),
                           common_subexpression_pass(),
                           norm_linear_pass({}),
                           linear_gelu_pass({}),
                           linear_norm_pass({}),
                           linear_add_pass({}),
                           first_token_attention_pass({}),
                           chunked_loss_pass({}, 0),
                           accumulate_pass(),
                           loss_with_gradients_pass({}),
                           fp8_products_pass({}),
                           row_gradients_pass(1),
                           context_gradients_pass(1, 0),
                           reduce_gradients_pass(1, 0),
                           shard_states_pass({}),
                           tensor_states_pass(1),
                           pipeline_states_pass({}, {}),
                           recompute_pass({}),
                           copies_at_use_pass(DType::kF16),
                           dead_code_pass({}),
                           reorder_pass({}),
                           delay_gradients_pass({}),
                           slice_updates_pass(1, SlicedUpdates::kAll),
                           gather_weights_pass({}),
                           gather_at_use_pass(),
                           map_peers_pass(MeshAxis::kData),
                           pipeline_chunks_pass(),
                           in_place_pass(),
                           offload_activations_pass({}, 0),
                           updates_at_use_pass(),
                           offload_states_pass()}) {
    infos.push_back({pass.name, pass.numerics, pass.help, pass.needed_for});
  }
  return infos;
}

// Returns the position of the pass in all_passes(), or the number of passes if no pass has this name.
size_t place_of(std::string_view name) {
  const std::vector<PassInfo>& passes = all_passes();
  return static_cast<size_t>(std::ranges::find(passes, name, &PassInfo::name) - passes.begin());
}

}  // namespace

const std::vector<PassInfo>& all_passes() {
  static const std::vector<PassInfo> infos = list_passes();
  return infos;
}

bool PassOptions::is_on(std::string_view pass) const {
  if (disabled.contains(pass)) return false;
  if (stop_after.empty()) return true;
  if (stop_after == kStopAfterNone) return false;
  const size_t last = place_of(stop_after);
  PLIMSOLL_CHECK(last < all_passes().size(), "cannot stop after '{}': no pass has this name", stop_after);
  return place_of(pass) <= last;
}

void PassManager::run(Graph& graph, const Pass& pass) {
  const size_t place = place_of(pass.name);
  PLIMSOLL_CHECK(
      place >= next_,
      "passes must run in the order of all_passes(), but '{}' runs after a pass that is listed later",
      pass.name);
  next_ = place;
  const bool is_needed = !pass.needed_for.empty();
  if (is_needed && options_.disabled.contains(pass.name)) {
    throw_error(
        ErrorCode::kUsage,
        "--disable_pass {0}: a run with {1} needs this pass; remove --disable_pass {0}, or run without {1}",
        pass.name, pass.needed_for);
  }
  const bool is_on = options_.is_on(pass.name);
  PassRecord record{.name = std::string(pass.name),
                    .ran = is_on || is_needed,
                    .despite_stop = !is_on && is_needed,
                    .needed_for = pass.needed_for,
                    .ops_before = graph.ops().size()};
  if (record.ran) {
    const auto start = std::chrono::steady_clock::now();
    pass.run(graph);
    record.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (options_.verifies_each_pass()) verify(graph, "after pass '" + std::string(pass.name) + "'");
    if (options_.dump) options_.dump(pass.name, print_graph(graph));
  }
  record.ops_after = graph.ops().size();
  records_.push_back(std::move(record));
}

void PassManager::changed(const Graph& graph, std::string_view when) const {
  if (options_.verifies_each_pass()) verify(graph, when);
}

void PassManager::finish(const Graph& graph) const {
  if (options_.verification == Verification::kOnce && !options_.dump)
    verify(graph, "after the last pass; --dump_passes FOLDER names the pass at fault");
}

}  // namespace plimsoll
