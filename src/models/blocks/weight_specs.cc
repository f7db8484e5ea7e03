#include "models/blocks/weight_specs.h"

#include <string_view>
#include <utility>

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

void add_packed_specs(std::vector<WeightSpec>& specs, const std::string& name,
                      const std::vector<PackedModule>& modules, int64_t in, LinearBias bias,
                      const std::vector<std::string>& disk_prefixes) {
  int64_t rows = 0;
  for (const PackedModule& module : modules) rows += module.rows;
  for (const char* kind : {".weight", ".bias"}) {
    const bool matrix = std::string_view(kind) == ".weight";
    if (!matrix && bias == LinearBias::kNo) continue;
    WeightSpec spec{name + kind,
                    matrix ? std::vector<int64_t>{rows, in} : std::vector<int64_t>{rows},
                    matrix ? Initializer::kNormal : Initializer::kZeros,
                    matrix,
                    {}};
    int64_t row = 0;
    for (const PackedModule& module : modules) {
      spec.parts.push_back({spellings_on_disk(disk_prefixes, module.name + kind), row, module.rows});
      row += module.rows;
    }
    specs.push_back(std::move(spec));
  }
}

void add_gain_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                   const std::vector<std::string>& disk_prefixes) {
  specs.push_back({name + ".weight",
                   {width},
                   Initializer::kOnes,
                   false,
                   {{spellings_on_disk(disk_prefixes, name + ".weight"), 0, width}}});
}

void add_matrix_spec(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                     const std::vector<std::string>& disk_prefixes) {
  add_packed_specs(specs, name, {{name, out}}, in, LinearBias::kNo, disk_prefixes);
}

void add_linear_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t out, int64_t in,
                      const std::vector<std::string>& disk_prefixes) {
  add_packed_specs(specs, name, {{name, out}}, in, LinearBias::kYes, disk_prefixes);
}

void add_norm_specs(std::vector<WeightSpec>& specs, const std::string& name, int64_t width,
                    const std::vector<std::string>& disk_prefixes) {
  add_gain_spec(specs, name, width, disk_prefixes);
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
  specs.back().is_table = true;
}

}  // namespace plimsoll
