#include "models/blocks/weight_specs.h"

#include <string_view>

namespace plimsoll {

std::vector<std::string> spellings_on_disk(const std::vector<std::string>& disk_prefixes,
                                           const std::string& name) {
  std::vector<std::string> names;
  for (const std::string& prefix : disk_prefixes) {
    names.push_back(prefix + name);
    if (name.find("LayerNorm.") == std::string::npos) continue;
    const std::string module = name.substr(0, name.rfind('.'));
    names.push_back(prefix + module + (name.ends_with("weight") ? ".gamma" : ".beta"));
  }
  return names;
}

void add_linear_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                      const std::vector<std::string>& disk_prefixes) {
  specs.push_back({name + ".weight",
                   {out, in},
                   Initializer::kNormal,
                   true,
                   {{spellings_on_disk(disk_prefixes, name + ".weight"), 0, out}}});
  specs.push_back({name + ".bias",
                   {out},
                   Initializer::kZeros,
                   false,
                   {{spellings_on_disk(disk_prefixes, name + ".bias"), 0, out}}});
}

void add_norm_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                    const std::vector<std::string>& disk_prefixes) {
  specs.push_back({name + ".weight",
                   {width},
                   Initializer::kOnes,
                   false,
                   {{spellings_on_disk(disk_prefixes, name + ".weight"), 0, width}}});
  specs.push_back({name + ".bias",
                   {width},
                   Initializer::kZeros,
                   false,
                   {{spellings_on_disk(disk_prefixes, name + ".bias"), 0, width}}});
}

void add_table_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t rows, int64_t width,
                    const std::vector<std::string>& disk_prefixes, int64_t zero_row) {
  specs.push_back({name + ".weight",
                   {rows, width},
                   Initializer::kNormal,
                   true,
                   {{spellings_on_disk(disk_prefixes, name + ".weight"), 0, rows}},
                   zero_row});
}

}  // namespace plimsoll
