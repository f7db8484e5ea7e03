// The rates at which a disk is read and written in large requests, several at a time. Pure data; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

struct DiskRates {
  // The default values are assumptions until the disk is measured. An SSD on four PCIe 3 lanes can sustain these rates.
  double read_gb_per_s = 2.0;
  double write_gb_per_s = 1.0;
  double both_gb_per_s = 1.5;  // sum of the rates of reading and writing if both happen at the same time
  std::string date = {};       // date of the measurement; empty if the rates are assumed
  bool is_measured() const { return !date.empty(); }
  friend bool operator==(const DiskRates&, const DiskRates&) = default;
};

// Format measured rates as JSON, and parse that text. `source` is the name of the file in errors. Errors: kBadData.
std::string disk_rates_json(const DiskRates& rates);
DiskRates parse_disk_rates(std::string_view text, const std::string& source);

}  // namespace plimsoll
