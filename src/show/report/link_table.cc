#include "show/report/link_table.h"

#include <fmt/format.h>

#include <iterator>

#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kTableColumns = 80;

void add_curve(std::string& text, const LinkCurve& curve, Collective collective, int num_ranks) {
  text += "\n" + left_aligned(collective_name(collective), 16) + right_aligned("time", 12) +
          right_aligned("+-", 9) + right_aligned("data GB/s", 12) + right_aligned("bus GB/s", 12) +
          right_aligned("runs", 7) + "\n";
  for (const LinkPoint& point : curve) {
    const double gb_per_s = static_cast<double>(point.bytes) / (1e6 * point.median_ms);
    text += right_aligned(format_size(point.bytes), 16) +
            right_aligned(short_number(point.median_ms) + " ms", 12) +
            right_aligned(format_share(point.spread, 1), 9) + right_aligned(short_number(gb_per_s), 12) +
            right_aligned(short_number(bus_factor(collective, num_ranks) * gb_per_s), 12) +
            right_aligned(fmt::format("{}", point.num_runs), 7) + "\n";
  }
}

}  // namespace

std::string format_size(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string link_table(const MeasuredLinks& links, const std::string& device) {
  std::string text = fmt::format("exchanges between {} ranks by {}, on {}\n", links.num_ranks,
                                 describe_link_exchange(links.exchange), device);
  for (const auto& [collective, curve] : links.curves) add_curve(text, curve, collective, links.num_ranks);
  return text + "\n" +
         wrapped(
             "time: median over the runs of the slowest rank; +-: half the distance between the quartiles, "
             "relative "
             "to the median; data GB/s: size / time; bus GB/s: bytes that each rank sends / time, as "
             "nccl-tests "
             "defines it. Every result was compared with the exact one before times counted.",
             kTableColumns, 0);
}

}  // namespace plimsoll
