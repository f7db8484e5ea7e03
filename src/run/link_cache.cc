#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "plimsoll/error.h"
#include "run/caches.h"

namespace plimsoll {
namespace {

std::string describe_key(const LinkCalibration& key) {
  return fmt::format("{} ranks on {} machine{} with {}", key.num_ranks, key.num_hosts,
                     key.num_hosts == 1 ? "" : "s", key.device);
}

// NCCL may have been measured with and without P2P. Removes the measurements that do not apply with the environment's NCCL_P2P_DISABLE.
LinkCalibration with_p2p_of(LinkCalibration calibration, const Environment& environment) {
  calibration.exchanges.erase(disables_nccl_p2p(environment) ? LinkExchange::kNccl
                                                             : LinkExchange::kNcclWithoutP2p);
  return calibration;
}

}  // namespace

bool disables_nccl_p2p(const Environment& environment) {
  const auto found = environment.find("NCCL_P2P_DISABLE");
  return found != environment.end() && !found->second.empty() && found->second != "0";
}

std::string link_calibration_path(const LinkCalibration& key, const Environment& environment) {
  const std::string folder = cache_folder("links", environment);
  if (folder.empty()) return {};
  return join_path(folder, fmt::format("{}-{}x{}.json", to_hex(hash64(key.host + "\n" + key.device)),
                                       key.num_ranks, key.num_hosts));
}

LinkCalibration read_link_calibration(const std::string& word, const LinkCalibration& key,
                                      const Environment& environment, FileSystem& files,
                                      std::vector<std::string>& warnings) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (word == "off") return {};
  const bool is_named = word != "auto";
  const std::string path = is_named ? word : link_calibration_path(key, environment);
  if (path.empty() || (!is_named && !is_in_cache(files, path))) return {};
  try {
    LinkCalibration calibration = parse_link_calibration(read_text_file(files, path, kMost), path);
    LinkCalibration wanted = key;
    if (is_named) wanted.host = calibration.host;
    if (calibration.has_key_of(wanted)) return with_p2p_of(std::move(calibration), environment);
    warnings.push_back(
        fmt::format("{}: the exchanges were measured between {}, but this run has {}; the rate between ranks "
                    "is assumed (run plimsoll bench --links with this number of ranks)",
                    path, describe_key(calibration), describe_key(key)));
  } catch (const Error& error) {
    if (is_named) throw;
    warnings.push_back(std::string(error.what()) + "; the rate between ranks is assumed");
  }
  return {};
}

}  // namespace plimsoll
