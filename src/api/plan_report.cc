#include "api/plan_report.h"

namespace plimsoll {

PlanReport make_plan_report(const Plan& plan) {
  PlanReport report;
  report.total_bytes = plan.total_bytes();
  report.arena_bytes = plan.arena_bytes;
  report.lower_bound_bytes = plan.lower_bound_bytes;
  report.constant_bytes = plan.request.host.total();
  report.fits = !plan.request.memory_limit_bytes || plan.total_bytes() <= *plan.request.memory_limit_bytes;
  report.build_ms = plan.build_ms;
  report.table = fmt::format("arena {:.1f} MiB, process {:.1f} MiB\n", static_cast<double>(plan.arena_bytes) / 1048576.0,
                             static_cast<double>(plan.request.host.total()) / 1048576.0);
  return report;
}

}  // namespace plimsoll
