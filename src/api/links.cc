#include "plimsoll/links.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/file.h"
#include "device/comm/communicator.h"
#include "device/comm/nccl_library.h"
#include "device/cuda/cuda_device.h"
#include "device/monitor/host.h"
#include "exec/link_measurement.h"
#include "hardware/gpu_constant.h"
#include "plimsoll/plan.h"
#include "run/caches.h"
#include "run/device_choice.h"
#include "run/rank_environment.h"
#include "show/report/link_table.h"

namespace plimsoll {
namespace {

std::string today() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

// Checks that all ranks have the same options. With different options they would wait for one another forever. Errors:
// kUsage.
void require_equal_options(Communicator& ranks, const LinkBenchOptions& options) {
  using Numbers = std::array<double, 2>;
  const Numbers own{static_cast<double>(options.largest_bytes), options.seconds_per_size};
  std::vector<Numbers> all(static_cast<size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw_error(ErrorCode::kUsage,
                "rank 0 measures sizes up to {} bytes for {} s each, but rank {} measures sizes up to {} "
                "bytes for {} s each; start all ranks with the same --links and --seconds",
                all[0][0], all[0][1], rank, all[rank][0], all[rank][1]);
  }
}

bool is_true_on_all_ranks(Communicator& ranks, bool flag) {
  double count = flag ? 1 : 0;
  ranks.all_reduce({&count, DType::kF64}, 1);
  return count == ranks.size();
}

// If the largest measured size is smaller than this, the report warns: plans assume the rate of the largest measured size for all larger
// sizes, and the time of a small exchange is mostly latency, so that its rate is too low.
constexpr int64_t kLeastBytesForPlans = int64_t{16} << 20;

// Returns what identifies the measurements of these ranks in the cache: the host, the device, and the numbers of ranks and hosts.
LinkCalibration key_of(const RankPlace& place, const ChosenDevice& device) {
  LinkCalibration key{
      .host = host_name(), .num_ranks = place.size, .num_hosts = place.size / place.local_size};
  key.device = device.options.is_gpu()
                   ? visible_cuda_devices().at(static_cast<size_t>(device.gpu_ordinal)).name
                   : calibrated_cpu();
  return key;
}

// Returns the reason why this process cannot open NCCL, with the paths that were searched; "" if it can.
std::string nccl_failure() {
  try {
    static_cast<void>(nccl());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

class LinksOfRun {
 public:
  LinksOfRun(const Arguments& arguments, const LinkBenchOptions& options, const Environment& environment)
      : environment_(environment),
        place_(rank_place(environment)),
        limits_{.largest_bytes = options.largest_bytes, .seconds_per_size = options.seconds_per_size} {
    if (place_.is_alone()) {
      throw_error(ErrorCode::kUsage,
                  "links are measured between ranks, but this process is the only one; give --nproc_per_node "
                  "2 or more");
    }
    require_equal_machines(place_);
    if (place_.is_first()) prepare_cache();
    std::vector<std::string> ignored;
    device_ = choose_device(arguments, RunPurpose::kTrain, place_, num_run_threads(arguments), ignored);
    ranks_ = connect_ranks(place_, {.operation_timeout = std::chrono::seconds(arguments.ddp_timeout)});
    require_equal_options(*ranks_, options);
  }

  LinkBenchReport run(const std::function<void(const std::string&)>& progress) {
    LinkCalibration measured = key_of(place_, device_);
    const int64_t elements = link_buffer_elements(limits_, place_.size);
    const auto measure = [&](std::unique_ptr<LinkExchanger> exchanger) {
      MeasuredLinks links = measure_links(*exchanger, *ranks_, limits_, progress);
      links.date = today();
      if (place_.is_first())
        report_.table += (report_.table.empty() ? "" : "\n") + link_table(links, measured.device);
      measured.exchanges[links.exchange] = std::move(links);
    };
    if (!device_.options.is_gpu()) {
      measure(gloo_exchanger(*ranks_, elements));
    } else {
      const std::string& uuid = device_.options.gpu.uuid;
      if (measures_mapped_memory())
        measure(mapped_memory_exchanger(*ranks_, device_.gpu_ordinal, uuid, elements));
      if (measures_nccl()) measure(nccl_exchanger(*ranks_, device_.gpu_ordinal, uuid, nccl_kind(), elements));
    }
    if (place_.is_first() && !measured.empty()) keep(std::move(measured));
    return report_;
  }

 private:
  // Creates the folder of the cache before the measurement, so that an error in the cache is reported at once.
  void prepare_cache() const {
    const std::string folder = cache_folder("links", environment_);
    if (folder.empty()) {
      throw_error(
          ErrorCode::kUsage,
          "the environment has neither HOME nor XDG_CACHE_HOME, so Plimsoll knows no folder for the times of "
          "exchanges; set HOME");
    }
    make_folders(posix_file_system(), folder);
  }

  LinkExchange nccl_kind() const {
    return disables_nccl_p2p(environment_) ? LinkExchange::kNcclWithoutP2p : LinkExchange::kNccl;
  }

  // Returns true if transfers through mapped memory are measured. With NCCL_P2P_DISABLE=1, which also forbids mapped memory in runs, they
  // are not measured.
  bool measures_mapped_memory() {
    const bool can =
        device_.options.gpu.maps_peers && place_.local_size == place_.size && place_.size <= kMostPeers;
    if (!can) {
      report_.notes.push_back(fmt::format(
          "mapped memory is not measured: it needs at most {} GPUs of one machine that can map each "
          "other's memory (plimsoll monitor --topology shows if they can)",
          kMostPeers));
    }
    return is_true_on_all_ranks(*ranks_, can) && !disables_nccl_p2p(environment_);
  }

  bool measures_nccl() {
    if (is_true_on_all_ranks(*ranks_, has_nccl())) return true;
    const std::string own_reason = nccl_failure();
    report_.notes.push_back(
        "NCCL is not measured: " +
        (own_reason.empty()
             ? "another rank cannot open the library of NCCL; run this command on the machine of that rank "
               "alone to see where it was searched for"
             : own_reason));
    return false;
  }

  // Writes the new measurements into the file in the cache. Measurements of other operations that the file contains are kept.
  void keep(LinkCalibration measured) {
    const std::string path = link_calibration_path(measured, environment_);
    if (limits_.largest_bytes < kLeastBytesForPlans) {
      report_.notes.push_back(fmt::format(
          "the largest measured size is {} KiB, and plans assume its rate for larger sizes too, which are "
          "faster in reality; before you use the times in plans, measure without a size after --links or "
          "with 16MiB or more",
          limits_.largest_bytes >> 10));
    }
    FileSystem& files = posix_file_system();
    if (is_in_cache(files, path)) {
      try {
        LinkCalibration before = parse_link_calibration(read_text_file(files, path, int64_t{1} << 20), path);
        if (before.has_key_of(measured)) measured.exchanges.merge(before.exchanges);
      } catch (const Error&) {
        report_.notes.push_back(path + ": the earlier file cannot be used and is replaced");
      }
    }
    keep_in_cache(files, path, link_calibration_json(measured),
                  "the measured times (--link_calibration FILE reads them from any path)");
    report_.path = path;
  }

  const Environment& environment_;
  RankPlace place_;
  LinkBenchLimits limits_;
  ChosenDevice device_;
  std::unique_ptr<Communicator> ranks_;
  LinkBenchReport report_;
};

}  // namespace

LinkBenchReport bench_links(const Arguments& arguments, const LinkBenchOptions& options,
                            const Environment& environment,
                            const std::function<void(const std::string&)>& progress) {
  return LinksOfRun(arguments, options, environment).run(progress);
}

bool ranks_use_gpus(const Arguments& arguments) {
  return num_ranks_on_this_machine(arguments) > 1;
}

bool has_nccl() {
  return nccl_failure().empty();
}

}  // namespace plimsoll
