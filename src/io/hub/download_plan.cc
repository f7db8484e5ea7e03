#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "io/hub/hub_address.h"
#include "plimsoll/download.h"

namespace plimsoll {
namespace {

// Formats a number of bytes for users, in units of powers of 1024.
std::string format_bytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < kMiB) return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024);
  const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

}  // namespace

int64_t DownloadPlan::total_bytes() const {
  int64_t sum = 0;
  for (const DownloadFile& file : files) sum += file.size_bytes;
  return sum;
}

int64_t DownloadPlan::missing_bytes() const {
  int64_t sum = 0;
  for (const DownloadFile& file : files) sum += file.size_bytes - file.present_bytes;
  return sum;
}

int64_t DownloadPlan::num_missing_files() const {
  return std::ranges::count_if(files, [](const DownloadFile& file) { return !file.is_complete(); });
}

std::string format_download_plan(const DownloadPlan& plan) {
  std::string text = fmt::format("{} from {}, revision {} (commit {})\n", plan.name, host_of(plan.endpoint),
                                 plan.revision, plan.commit.substr(0, 12));
  size_t width = 0;
  for (const DownloadFile& file : plan.files) width = std::max(width, file.name.size());
  for (const DownloadFile& file : plan.files) {
    text += fmt::format("  {:<{}}  {:>10}", file.name, width, format_bytes(file.size_bytes));
    if (file.is_complete()) {
      text += "  present";
    } else if (file.present_bytes > 0) {
      text += fmt::format("  {} present", format_bytes(file.present_bytes));
    }
    text += "\n";
  }
  text += fmt::format("{}, {}; to download: {}, {} bytes ({}); free on the disk: {}\n",
                      counted(plan.files.size(), "file"), format_bytes(plan.total_bytes()),
                      counted(plan.num_missing_files(), "file"), plan.missing_bytes(),
                      format_bytes(plan.missing_bytes()), format_bytes(plan.free_bytes));
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  return text;
}

std::string download_plan_json(const DownloadPlan& plan) {
  nlohmann::ordered_json json{{"name", plan.name},
                              {"endpoint", plan.endpoint},
                              {"revision", plan.revision},
                              {"commit", plan.commit},
                              {"folder", plan.folder},
                              {"total_bytes", plan.total_bytes()},
                              {"missing_bytes", plan.missing_bytes()},
                              {"free_bytes", plan.free_bytes},
                              {"files", nlohmann::ordered_json::array()},
                              {"notes", plan.notes}};
  for (const DownloadFile& file : plan.files) {
    json["files"].push_back({{"name", file.name},
                             {"size_bytes", file.size_bytes},
                             {"present_bytes", file.present_bytes},
                             {"is_complete", file.is_complete()}});
  }
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace plimsoll
