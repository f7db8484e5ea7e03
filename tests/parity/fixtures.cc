#include "tests/parity/fixtures.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "base/file.h"
#include "io/ckpt/safetensors.h"
#include "tests/support/fnv1a.h"
#include "tests/support/places.h"

namespace plimsoll::testing {
namespace {

// Returns a hash of x: the finaliser of splitmix64 (Steele, Lea and Flood, 2014).
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

Projection project(const std::string& name, std::span<const double> values) {
  Projection sums{};
  const uint64_t start = test::fnv1a(name);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix(start + (i + 1) * 0x9E3779B97F4A7C15u);
    for (size_t k = 0; k < kProjections; ++k) sums[k] += ((bits >> k) & 1u) != 0 ? -values[i] : values[i];
  }
  return sums;
}

std::map<std::string, std::vector<double>> read_tensors(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(posix_file_system(), path);
  std::map<std::string, std::vector<double>> tensors;
  for (const StoredTensor& tensor : file.tensors()) {
    std::vector<double>& values = tensors[tensor.name];
    values.resize(static_cast<size_t>(tensor.num_elements()));
    file.read(tensor, {values.data(), DType::kF64});
  }
  return tensors;
}

Fixtures::Fixtures() : folder_(place("PLIMSOLL_SOURCE", PLIMSOLL_SOURCE_DIR) + "/tests/parity") {
  std::ifstream file(path("cases.json"));
  json_ = nlohmann::json::parse(file);
  expected_ = read_tensors(path("expected.safetensors"));
  json_["bf16_errors"] = read_json(path("bf16.json")).at("errors");
  std::set<std::string> sets;  // sorted by name, so that the cases always have the same order
  for (const auto& entry : std::filesystem::directory_iterator(path("sets"))) {
    if (entry.path().extension() == ".json") sets.insert(entry.path().stem().string());
  }
  for (const std::string& name : sets) add_set(path("sets/" + name));
}

void Fixtures::add_set(const std::string& stem) {
  const nlohmann::json set = read_json(stem + ".json");
  for (const char* list : {"cases", "first_batches"}) {
    for (const nlohmann::json& item : set.at(list)) json_[list].push_back(item);
  }
  for (const char* map : {"tensor_names", "bf16_errors"}) json_[map].update(set.at(map));
  expected_.merge(read_tensors(stem + ".safetensors"));
}

std::vector<std::string> Fixtures::tensor_names(const std::string& model) const {
  return json_.at("tensor_names").at(model).get<std::vector<std::string>>();
}

Projection Fixtures::expected_projection(const std::string& name, size_t row) const {
  const std::vector<double>& values = expected_.at(name);
  Projection projection{};
  for (size_t k = 0; k < kProjections; ++k) projection[k] = values.at(row * kProjections + k);
  return projection;
}

Arguments Fixtures::arguments(const nlohmann::json& settings, const std::string& output_dir) const {
  nlohmann::json json = settings;
  for (const char* key : {"model_name_or_path", "train_file", "validation_file", "test_file"}) {
    if (json.contains(key)) json[key] = path(json[key].get<std::string>());
  }
  json["output_dir"] = output_dir;
  json["num_threads"] = 1;
  // CMakeLists.txt sets PLIMSOLL_TEST_DEVICE to run the same cases on a GPU.
  if (const char* device = std::getenv("PLIMSOLL_TEST_DEVICE")) json["device"] = device;
  if (!json.contains("save_strategy")) json["save_strategy"] = "no";
  return arguments_from_json(json.dump(), "cases.json");
}

const Fixtures& fixtures() {
  static const Fixtures all;
  return all;
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return nlohmann::json::parse(file);
}

bool has_zero_gradient(const std::string& tensor_name) {
  return tensor_name.ends_with("attention.self.key.bias") || tensor_name.ends_with("attention.k_lin.bias");
}

}  // namespace plimsoll::testing
