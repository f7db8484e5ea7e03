#include "plimsoll/disk.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"
#include "exec/disk_transfers.h"
#include "run/caches.h"
#include "run/states_folder.h"

namespace plimsoll {
namespace {

// The size of each measured transfer. A run updates large weights in pieces, and AdamW's moments of a piece have at most this size.
constexpr int64_t kMeasuredTransferBytes = int64_t{16} << 20;

// Measures the transfer rates of a file. Reads and writes use different buffers in memory, so that both may run at the
// same time.
class MeasuredDisk {
 public:
  MeasuredDisk(std::unique_ptr<ScratchFile> file, int64_t file_bytes)
      : count_(static_cast<size_t>(file_bytes / kMeasuredTransferBytes)),
        read_memory_(static_cast<size_t>(kMeasuredTransferBytes)),
        written_memory_(static_cast<size_t>(kMeasuredTransferBytes), std::byte{0x5a}),
        disk_(std::move(file), 2 * count_) {}

  bool is_direct() const { return disk_.file().is_direct(); }

  // Returns the transfer rate in GB/s: the median of three passes over the whole file. If both `reads` and `writes` are true,
  // one block is read while another one is written.
  double median_rate(bool reads, bool writes) {
    std::array<double, 3> rates{};
    for (double& rate : rates) {
      const auto start = std::chrono::steady_clock::now();
      int64_t bytes = 0;
      for (size_t i = 0; i < count_; ++i) {
        if (reads) bytes += transfer(TransferDirection::kFromDisk, i);
        // The written block is half a file away from the block that is read at the same time, so that no block is read
        // and written at once.
        if (writes) bytes += transfer(TransferDirection::kToDisk, (i + count_ / 2) % count_);
        disk_.wait_for_all();
      }
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      rate = 1e-9 * static_cast<double>(bytes) / seconds.count();
    }
    std::ranges::sort(rates);
    return rates[1];
  }

 private:
  int64_t transfer(TransferDirection direction, size_t block) {
    const int64_t offset = static_cast<int64_t>(block) * kMeasuredTransferBytes;
    const bool reads = direction == TransferDirection::kFromDisk;
    const DiskTransfer::Part part{.memory = reads ? read_memory_.data() : written_memory_.data(),
                                  .offset = offset,
                                  .bytes = kMeasuredTransferBytes,
                                  .value_end = offset + kMeasuredTransferBytes};
    disk_.start(std::make_shared<DiskTransfer>(direction, std::span(&part, 1)), 1);
    return kMeasuredTransferBytes;
  }

  size_t count_;
  std::vector<std::byte> read_memory_, written_memory_;
  DiskTransfers disk_;
};

}  // namespace

DiskBenchReport bench_disk(const std::string& folder, int64_t file_bytes, const Environment& environment) {
  FileSystem& files = posix_file_system();
  const int64_t bytes = std::max<int64_t>(2, file_bytes / kMeasuredTransferBytes) * kMeasuredTransferBytes;
  require_folder_with_room(folder, "bench: --disk " + folder, bytes, files);
  const std::string path = disk_rates_path(folder, environment);
  DiskBenchReport report{.file_bytes = bytes, .path = path};
  MeasuredDisk disk(files.create_scratch(join_path(folder, "plimsoll-bench-disk"), bytes), bytes);
  report.is_direct = disk.is_direct();
  // The write rate is measured first, because the first write of a block allocates it on the disk.
  report.write_gb_per_s = disk.median_rate(false, true);
  report.read_gb_per_s = disk.median_rate(true, false);
  report.both_gb_per_s = disk.median_rate(true, true);
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const DiskRates rates{.read_gb_per_s = report.read_gb_per_s,
                        .write_gb_per_s = report.write_gb_per_s,
                        .both_gb_per_s = report.both_gb_per_s,
                        .date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(now))};
  keep_in_cache(files, path, disk_rates_json(rates), "the measured rates of the disk");
  return report;
}

}  // namespace plimsoll
