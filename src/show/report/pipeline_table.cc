#include "show/report/pipeline_table.h"

#include <fmt/format.h>

#include "plan/compile/stage_plan.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kStageWidth = 33;

// Formats a range of layers: "0 to 3", or "3" for a single layer.
std::string describe_layers(int64_t first, int64_t count) {
  const int64_t last = first + count - 1;
  return count == 1 ? fmt::format("{}", last) : fmt::format("{} to {}", first, last);
}

// Returns the number of bytes of those persistent tensors of a stage that have this storage class, such as weights.
int64_t bytes_of(const StagePlan& stage, Storage storage) {
  int64_t bytes = 0;
  for (const PersistentBuffer& tensor : stage.tensors) bytes += tensor.storage == storage ? tensor.bytes : 0;
  return bytes;
}

std::string micro_batches(int64_t count) {
  return count == 1 ? "1 micro-batch" : fmt::format("{} micro-batches", count);
}

std::string counted_chunks(const StagePlan& stage) {
  return fmt::format("{} chunks", stage.chunks.size());
}

// Returns the table row of a chunk (a group of neighbouring layers that the stage computes): its layers, and what it
// saves for the backward pass.
std::string chunk_row(const StageChunk& chunk, int64_t number, bool trains) {
  const std::string held = trains ? ", " + micro_batches(chunk.num_slots) : "";
  std::string row = left_aligned(fmt::format("    chunk {}{}", number, held), kStageWidth) +
                    right_aligned(describe_layers(chunk.first_block, chunk.num_blocks), 10);
  if (trains) row += right_aligned(format_mib(chunk.num_slots * chunk.slot_bytes), 30);
  return row + "\n";
}

std::string_view schedule_name(PipelineSchedule schedule) {
  if (schedule == PipelineSchedule::kInterleaved) return "interleaved";
  return schedule == PipelineSchedule::kGpipe ? "gpipe" : "1f1b";
}

}  // namespace

std::string pipeline_table(const Plan& plan, size_t columns) {
  if (!plan.is_pipelined()) return {};
  const int64_t batches = plan.request.batches.accumulation_steps;
  const bool trains = plan.trains();
  const PipelineTime time =
      trains ? simulate_step(plan.stages, batches) : simulate_evaluation(plan.stages, 1);
  std::string text = "\n" + left_aligned("stages of the pipeline, MiB", kStageWidth) +
                     right_aligned("layers", 10) + right_aligned("weights", 10) +
                     right_aligned("states", 10) + right_aligned("saved", 10) + right_aligned("total", 10) +
                     right_aligned("est. ms", 10) + "\n";
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    const std::string held = stage.chunks.empty() ? micro_batches(stage.num_slots) : counted_chunks(stage);
    const bool is_own = static_cast<int64_t>(i) == plan.request.ranks.stage;
    text +=
        left_aligned(fmt::format("  {}{}{}", i, is_own ? " (shown above)" : "", trains ? ", " + held : ""),
                     kStageWidth) +
        right_aligned(stage.chunks.empty() ? describe_layers(stage.first_block, stage.num_blocks) : "", 10) +
        right_aligned(format_mib(bytes_of(stage, Storage::kWeight)), 10) +
        right_aligned(format_mib(bytes_of(stage, Storage::kOptimizerState)), 10) +
        right_aligned(format_mib(stage.saved_bytes), 10) + right_aligned(format_mib(stage.total_bytes), 10) +
        right_aligned(fmt::format("{:.1f}", time.busy_ms[i]), 10) + "\n";
    for (size_t chunk = 0; chunk < stage.chunks.size(); ++chunk)
      text += chunk_row(stage.chunks[chunk], static_cast<int64_t>(chunk), trains);
  }
  if (!trains) return text;
  return text +
         wrapped(fmt::format(
                     "schedule {}: a step of {} takes about {:.1f} ms without the update; the slowest stage "
                     "waits {} of it (the bubble)",
                     schedule_name(plan.request.ranks.schedule), micro_batches(batches), time.step_ms,
                     format_share(time.bubble(), 1.0)),
                 columns);
}

}  // namespace plimsoll
