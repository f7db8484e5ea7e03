// The plan as a person reads it: the memory table, the operations table, the verdict, and how to
// go further. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plan/compile/plan.h"
#include "plan/search/change.h"
#include "show/report/quantities.h"

namespace plimsoll {

// At most 100 columns, newline at the end. What `plan`, `train --dry_run` and the start of every run print.
// Cost: about a millisecond.
std::string plan_table(const Plan& plan, Characters characters = Characters::kUnicode);

// The cheapest ways to use less memory, after the table: what to type, the bytes that a plan made for it
// saves, what it does to the time of a sample. At most 100 columns, newline at the end; empty without
// savings.
std::string format_savings(const Plan& plan, const std::vector<Suggestion>& savings);

// `--modules`: weights, states, gradients, saved and temporary bytes of every module of the model.
std::string module_table(const Plan& plan);

// `--why`: each kernel and why faster ones declined, each pass with ops before and after, which values are
// saved for the backward pass, and the formulas that people quote beside this plan.
std::string plan_why(const Plan& plan);

// With --stop_after_pass: which passes do not run, and which do all the same because the run needs them. One
// line without a newline; "" without.
std::string format_stopped_passes(const Plan& plan);

// "fp32", "bf16": an element type as users of training frameworks write it.
std::string_view describe_precision(DType dtype);
// "fp32"; "bf16 mixed" where weights stay in fp32.
std::string describe_precision(const PlanRequest& request);
// "AdamW", "SGD with momentum 0.9".
std::string describe_optimizer(const OptimizerConfig& optimizer);

}  // namespace plimsoll
