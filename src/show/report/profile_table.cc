#include "show/report/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "show/report/quantities.h"

namespace plimsoll {

namespace {

constexpr size_t kGroupWidth = 29;
constexpr size_t kSlowest = 10;
constexpr size_t kLineWidth = 100;

using Measured = std::array<std::array<OpTotals, kNumSegments>, kNumOpGroups>;

std::string rate(double amount, double ms) {
  return ms > 0 ? fmt::format("{:.1f}", amount / 1e6 / ms) : "-";
}

std::string row(std::string_view label, const std::array<OpTotals, kNumSegments>& segments, double all_ms) {
  OpTotals sum;
  std::string text = left_aligned(fmt::format("  {}", label), kGroupWidth);
  for (const OpTotals& part : segments) {
    sum += part;
    text += right_aligned(part.ms > 0 ? fmt::format("{:.2f}", part.ms) : "-", 11);
  }
  return text + right_aligned(fmt::format("{:.2f}", sum.ms), 11) +
         right_aligned(format_share(sum.ms, all_ms), 8) + right_aligned(rate(sum.flops, sum.ms), 10) +
         right_aligned(rate(sum.bytes, sum.ms), 9) + "\n";
}

std::string format_slowest(const std::vector<OpEstimate>& ops, std::span<const double> ms, double all_ms) {
  std::vector<size_t> order(ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ms[a] > ms[b]; });
  order.resize(std::min(order.size(), kSlowest));
  const auto name_of = [&](size_t i) {
    return fmt::format("  {}, {}", ops[i].op, segment_name(ops[i].segment));
  };
  // The column of names is as wide as the longest name. The rest of the line is for the description of the op.
  size_t width = 28;
  for (size_t i : order) width = std::max(width, name_of(i).size() + 1);
  const size_t rest = kLineWidth - (width + 37);
  std::string text = left_aligned("slowest ops", width) + "       ms   share  GFLOP/s     GB/s  computes\n";
  for (size_t i : order) {
    const auto runs = static_cast<double>(ops[i].runs_per_step);
    text += left_aligned(name_of(i), width) + right_aligned(fmt::format("{:.2f}", ms[i]), 9) +
            right_aligned(format_share(ms[i], all_ms), 8) +
            right_aligned(rate(ops[i].flops * runs, ms[i]), 9) +
            right_aligned(rate(ops[i].bytes * runs, ms[i]), 9) + "  " + shortened(ops[i].output, rest) + "\n";
  }
  return text;
}

std::string describe_steps(const ProfileContext& context) {
  const int64_t first = context.num_first_steps;
  if (context.num_steps > 0) {
    return fmt::format(
        "mean of {} step{}{}\n", context.num_steps, context.num_steps == 1 ? "" : "s",
        first == 0 ? ""
                   : fmt::format("; {} more {} not included: the first step with a batch size takes longer",
                                 first, first == 1 ? "step is" : "steps are"));
  }
  if (first == 0) return "";
  return fmt::format(
      "mean of {} step{}, each the first with its batch size, which takes longer: run more steps\n", first,
      first == 1 ? "" : "s");
}

// Formats the reached rates as percentages of the peak rates that were measured on this device. The FLOPS of matrix
// products are compared with the peak FLOPS, and the GB/s of all other ops with the memory bandwidth.
std::string format_ceilings(const Measured& measured, const ProfileContext& context) {
  OpTotals products;
  OpTotals others;
  for (int g = 0; g < kNumOpGroups; ++g) {
    for (const OpTotals& part : measured[static_cast<size_t>(g)]) {
      (static_cast<OpGroup>(g) == OpGroup::kContraction ? products : others) += part;
    }
  }
  std::string text;
  if (context.peak_gflops > 0 && products.ms > 0) {
    text += fmt::format("contractions reach {:.0f} % of {} GFLOP/s",
                        products.flops / 1e4 / products.ms / context.peak_gflops,
                        short_number(context.peak_gflops));
  }
  if (context.peak_gb_per_s > 0 && others.ms > 0) {
    text += fmt::format("{}all other operations {:.0f} % of {} GB/s", text.empty() ? "" : ", ",
                        others.bytes / 1e4 / others.ms / context.peak_gb_per_s,
                        short_number(context.peak_gb_per_s));
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string profile_table(const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step,
                          const ProfileContext& context) {
  PLIMSOLL_CHECK(ops.size() == ms_per_step.size(), "{} ops, {} times", ops.size(), ms_per_step.size());
  Measured measured{};
  std::array<OpTotals, kNumSegments> all{};
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto runs = static_cast<double>(ops[i].runs_per_step);
    const OpTotals part{ops[i].flops * runs, ops[i].bytes * runs, ms_per_step[i]};
    measured[index_of(ops[i].group)][index_of(ops[i].segment)] += part;
    all[index_of(ops[i].segment)] += part;
  }
  const double all_ms = std::accumulate(ms_per_step.begin(), ms_per_step.end(), 0.0);
  std::string text = left_aligned("profile of a step, ms", kGroupWidth) + right_aligned("forward", 11) +
                     right_aligned("backward", 11) + right_aligned("optimizer", 11) +
                     right_aligned("all", 11) + right_aligned("share", 8) + right_aligned("GFLOP/s", 10) +
                     right_aligned("GB/s", 9) + "\n";
  for (int g = 0; g < kNumOpGroups; ++g) {
    const auto& segments = measured[static_cast<size_t>(g)];
    const bool used = std::any_of(segments.begin(), segments.end(),
                                  [](const OpTotals& t) { return t.ms > 0 || t.bytes > 0; });
    if (used) text += row(op_group_name(static_cast<OpGroup>(g)), segments, all_ms);
  }
  text += row("all ops", all, all_ms);
  if (context.step_ms > 0) {
    text += fmt::format("a step takes {:.2f} ms; {:.2f} ms of it are outside the ops\n", context.step_ms,
                        std::max(0.0, context.step_ms - all_ms));
  }
  return text + describe_steps(context) + format_ceilings(measured, context) + "\n" +
         format_slowest(ops, ms_per_step, all_ms);
}

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
