#include "show/report/plan_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/anatomy/anatomy.h"
#include "plan/anatomy/operations.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

// Width of the column that contains the names of blocks.
constexpr size_t kNameWidth = 23;
constexpr size_t kFigureWidth = 8;

bool keeps_the_same(const Recomputation& a, const Recomputation& b) {
  return a.kept_bytes == b.kept_bytes && a.again_bytes == b.again_bytes && a.ops == b.ops;
}

// Formats a range of blocks: "encoder.layer.0-22" for "encoder.layer.0" to "encoder.layer.22".
std::string name_of(const Recomputation& first, const Recomputation& last) {
  if (first.block == last.block) return first.block;
  const size_t dot = last.block.rfind('.');
  return first.block + "-" + last.block.substr(dot == std::string::npos ? 0 : dot + 1);
}

std::string format_ops(const Recomputation& row) {
  std::string text;
  for (const auto& [op, count] : row.ops) {
    text += (text.empty() ? "" : ", ") + (count > 1 ? fmt::format("{} {}", count, op) : op);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string recompute_table(const Plan& plan, size_t columns) {
  if (!plan.trains() || plan.request.recompute == RecomputeChoice{}) return "";
  const std::vector<Recomputation> rows = recomputation(plan);
  const double step_ms = operations_anatomy(plan).total().ms;
  std::string text = "\n" + left_aligned("computed again, MiB", kNameWidth);
  for (const char* header : {"kept", "again", "GFLOP", "est. ms", "share"})
    text += right_aligned(header, kFigureWidth);
  text += "  in each\n";
  const auto figures = [&](const Recomputation& row) {
    std::string line;
    for (const std::string& figure :
         {format_mib(row.kept_bytes), format_mib(row.again_bytes), fmt::format("{:.1f}", row.flops / 1e9),
          fmt::format("{:.2f}", row.ms), format_share(row.ms, step_ms)})
      line += right_aligned(figure, kFigureWidth);
    return line;
  };
  Recomputation all;
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin + 1;
    while (end < rows.size() && keeps_the_same(rows[begin], rows[end])) ++end;
    Recomputation sum;
    for (size_t i = begin; i < end; ++i) {
      for (Recomputation* total : {&sum, &all}) {
        total->kept_bytes += rows[i].kept_bytes;
        total->again_bytes += rows[i].again_bytes;
        total->flops += rows[i].flops;
        total->ms += rows[i].ms;
      }
    }
    const std::string line =
        left_aligned(shortened(name_of(rows[begin], rows[end - 1]), kNameWidth - 3), kNameWidth - 2) +
        figures(sum);
    text += "  " + wrapped(line + "  " + format_ops(rows[begin]), columns - 2, kNameWidth);
    begin = end;
  }
  return text + left_aligned("  all", kNameWidth) + figures(all) + "\n";
}

}  // namespace plimsoll
