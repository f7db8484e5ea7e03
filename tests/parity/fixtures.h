// Reads the fixtures of tests/parity: cases and the results of the reference. Values; not thread-safe while they
// load.
//
// Weights and gradients are compared by projections, which make_fixtures.py explains.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/arguments.h"

namespace plimsoll::testing {

inline constexpr int kProjections = 64;
using Projection = std::array<double, kProjections>;

// Sums of the elements with signs from a hash of name and index. The mean square estimates the square of the
// norm.
Projection project(const std::string& name, std::span<const double> values);

// The tensors of a .safetensors file, by name, as doubles.
std::map<std::string, std::vector<double>> read_tensors(const std::string& path);

class Fixtures {
 public:
  // Reads cases.json and expected.safetensors, and after them the sets in sets/.
  Fixtures();

  const nlohmann::json& cases() const { return json_.at("cases"); }
  // The files that run_glue.py writes.
  const nlohmann::json& outputs() const { return json_.at("outputs"); }
  // Intervals of logging, evaluation and saving.
  const nlohmann::json& patterns() const { return json_.at("patterns"); }
  const nlohmann::json& first_batches() const { return json_.at("first_batches"); }
  // The errors of Trainer's own bf16 runs, by case.
  const nlohmann::json& bf16_errors() const { return json_.at("bf16_errors"); }
  // Names of a model's tensors in the order of the rows of its projections.
  std::vector<std::string> tensor_names(const std::string& model) const;
  // Values of a tensor of expected.safetensors, row by row.
  const std::vector<double>& expected(const std::string& name) const { return expected_.at(name); }
  Projection expected_projection(const std::string& name, size_t row) const;

  std::string path(const std::string& relative) const { return folder_ + "/" + relative; }
  // Arguments of a case, with the paths of this machine and an empty output folder.
  Arguments arguments(const nlohmann::json& settings, const std::string& output_dir) const;

 private:
  // `stem`: the path of the set's files without the extension.
  void add_set(const std::string& stem);

  std::string folder_;
  nlohmann::json json_;
  std::map<std::string, std::vector<double>> expected_;
};

// Read once, at the first call.
const Fixtures& fixtures();

// Throws where the file is not there or is not JSON.
nlohmann::json read_json(const std::string& path);

// The gradient of an attention's key bias is exactly zero: it adds the same number to all scores of a query,
// which softmax does not see. The value that an engine computes for it is rounding, and AdamW makes full steps
// out of it. Such tensors are compared apart, so that they do not hide the others.
bool has_zero_gradient(const std::string& tensor_name);

}  // namespace plimsoll::testing
