// Formats the plan for people: the tables of memory and operations, whether it fits, and the texts of options such as
// --why. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/compile/plan_labels.h"
#include "plan/search/change.h"
#include "plimsoll/training.h"
#include "show/report/quantities.h"

namespace plimsoll {

// Formats the plan with at most `columns` columns (at least 80) and a newline at the end. `plan`, `train --dry_run` and the start of
// every run print it. Cost: about a millisecond.
std::string plan_table(const Plan& plan, const PlanLabels& labels = {},
                       Characters characters = Characters::kUnicode, size_t columns = 100);

// Formats the five lines about the plan that `train` prints: the model, the batch with the estimated speed, the memory, the
// purposes that need most of it, and its peak. For several ranks, one or two lines describe these. Each has at most 100 columns.
std::string plan_summary(const Plan& plan, const PlanLabels& labels = {});
// Formats the one line of the plan that `eval` and `predict` print.
std::string plan_headline(const Plan& plan, const PlanLabels& labels = {});

// Formats the cheapest ways to save memory: for each the argument to add, the bytes that it saves according to a plan, and its
// effect on the time per sample. At most `columns` columns, with a newline at the end; empty without savings.
std::string format_savings(const Plan& plan, const std::vector<Suggestion>& savings, size_t columns = 100);

// Formats the memory of the KV cache (per token, per page and per sequence) and the estimated speed of a plan that generates texts.
// Ends with a newline.
std::string cache_table(const Plan& plan, size_t columns = 100);
// Formats how the memory and speed change with the number of beams or of texts per prompt: one line of at most 80 columns for each
// number in `costs`. Returns "" if `costs` is empty.
std::string beam_table(const Plan& plan, const std::vector<BeamCost>& costs);

// Formats the output of `--modules`: weights, states, gradients, saved and temporary bytes of every module of
// the model.
std::string module_table(const Plan& plan);

// Formats the output of `--why`: each chosen kernel and why faster ones cannot be used, each pass of the graph
// compiler with the number of ops before and after it, the values saved for the backward pass, and the memory of this
// plan compared to common rules of thumb.
std::string plan_why(const Plan& plan);

// With --stop_after_pass, describes which passes do not run, and which later passes run anyway because the run needs
// them. One line without a newline; empty without that argument.
std::string format_stopped_passes(const Plan& plan);

// Converts an element type to the name that training frameworks use: "fp32", "bf16".
std::string_view describe_precision(DType dtype);
// Describes the precision of a run: "fp32", or "bf16 mixed" if the weights stay in fp32.
std::string describe_precision(const PlanRequest& request);
// Describes the speed of the links between ranks: "1.0 GB/s between ranks, assumed" or "1.3 GB/s and 0.07 ms per exchange between
// ranks by Gloo, measured ...". If the user specified links by name, the text contains their names and rates.
std::string describe_rank_link(const PlanRequest& request);

// The function below formats what the backward pass recomputes, for people. Pure; thread-safe.

// Formats one line per block of the model, or per range of blocks that are treated alike: MiB kept and
// recomputed, operations, estimated time, its fraction of the step, and the recomputed ops. At most `columns`
// columns, with a newline at the end. Returns "" for the default policy, which recomputes cheap values only.
std::string recompute_table(const Plan& plan, size_t columns);

// The functions below compare the memory of a finished run: predicted, allocated and measured. Pure; thread-safe.

// Formats a table with the arena, the memory outside it (the device constant) and their total. The columns are the
// prediction before the run, the allocation, and the measurement: the end of the used part of the arena, and the peak
// that the operating system reports. The last line states whether the prediction was right.
std::string memory_outcome_table(const MemoryFigures& figures);
// Returns the last line of memory_outcome_table() without a newline. It states whether the prediction was right.
std::string memory_verdict(const MemoryFigures& figures);

}  // namespace plimsoll
