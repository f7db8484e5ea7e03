#include "hardware/disk_rates.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "hardware/measured_json.h"

namespace plimsoll {
namespace {

constexpr MeasuredKind kDiskRatesKind{.name = "measurement of a disk",
                                      .schema_version = 1,
                                      .remedy = "measure the disk again: plimsoll bench --disk FOLDER"};

}  // namespace

std::string disk_rates_json(const DiskRates& rates) {
  const nlohmann::ordered_json json{{"schema_version", kDiskRatesKind.schema_version},
                                    {"read_gb_per_s", rates.read_gb_per_s},
                                    {"write_gb_per_s", rates.write_gb_per_s},
                                    {"both_gb_per_s", rates.both_gb_per_s},
                                    {"date", rates.date}};
  return json.dump(2) + "\n";
}

DiskRates parse_disk_rates(std::string_view text, const std::string& source) {
  const MeasuredJson json(text, source, kDiskRatesKind);
  const auto rate = [&](const char* name) {
    const auto value = json.get<double>(json.top(), name);
    if (!(value > 0 && value < 1e6))
      json.fail(fmt::format("'{}' must be a positive rate below 1e6 GB/s, but is {}", name, value));
    return value;
  };
  return {.read_gb_per_s = rate("read_gb_per_s"),
          .write_gb_per_s = rate("write_gb_per_s"),
          .both_gb_per_s = rate("both_gb_per_s"),
          .date = json.get<std::string>(json.top(), "date")};
}

}  // namespace plimsoll
