#include "api/plan_report.h"

#include <cctype>

#include "plan/anatomy/width_advice.h"
#include "plan/search/savings.h"
#include "plan/search/suggest.h"
#include "show/report/plan_json.h"
#include "show/report/plan_table.h"

namespace plimsoll {

Characters characters_of(const Environment& environment) {
  const auto locale = environment.find("LC_CTYPE");
  if (locale == environment.end()) return Characters::kUnicode;
  std::string name = locale->second;
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_utf8 = name.find("utf-8") != std::string::npos || name.find("utf8") != std::string::npos;
  return is_utf8 ? Characters::kUnicode : Characters::kAscii;
}

PlanReport make_plan_report(const Plan& plan, const RunSpec& run, const PlanLabels& labels, Savings savings,
                            Characters characters) {
  PlanReport report;
  report.total_bytes = plan.total_bytes();
  report.arena_bytes = plan.arena_bytes;
  report.lower_bound_bytes = plan.lower_bound_bytes;
  report.constant_bytes = plan.constant_bytes();
  report.fits = plan.fits();
  report.build_ms = plan.build_ms;
  report.table = plan_table(plan, labels, characters);
  report.summary = plan_summary(plan, labels);
  report.line = plan_headline(plan, labels);
  if (savings == Savings::kPlan && report.fits)
    report.savings = format_savings(plan, cheapest_savings(plan, run));
  if (savings == Savings::kPlan) report.refusal = describe_shortage(plan, run, labels);
  report.modules = module_table(plan);
  report.why = plan_why(plan);
  report.json = plan_json(plan, labels);
  if (std::string text = format_stopped_passes(plan); !text.empty()) report.notes.push_back(std::move(text));
  for (const WidthAdvice& advice : width_advice(plan)) report.notes.push_back(format_advice(advice));
  if (std::string text = describe_batch_shape(plan.request); savings == Savings::kPlan && !text.empty())
    report.notes.push_back(std::move(text));
  return report;
}

}  // namespace plimsoll
