#include "show/report/profile_json.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace plimsoll {

std::string profile_json(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                         const ProfileContext& context) {
  PLIMSOLL_CHECK(ops.size() == ms_per_step.size(), "{} ops, {} times", ops.size(), ms_per_step.size());
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto runs = static_cast<double>(ops[i].runs_per_step);
    list.push_back({{"op", ops[i].op},
                    {"computes", ops[i].output},
                    {"module", ops[i].module},
                    {"segment", segment_name(ops[i].segment)},
                    {"group", op_group_name(ops[i].group)},
                    {"kernel", ops[i].kernel},
                    {"ms", ms_per_step[i]},
                    {"estimated_ms", ops[i].ms * runs},
                    {"runs", ops[i].runs_per_step},
                    {"flops", ops[i].flops * runs},
                    {"bytes", ops[i].bytes * runs}});
  }
  const nlohmann::ordered_json json{
      {"num_steps", context.num_steps},
      {"num_first_steps", context.num_first_steps},
      {"step_ms", context.step_ms},
      {"measured_ceilings",
       {{"product_gflops", context.peak_gflops}, {"copy_gb_per_s", context.peak_gb_per_s}}},
      {"ops", std::move(list)}};
  return json.dump(2) + "\n";
}

}  // namespace plimsoll
