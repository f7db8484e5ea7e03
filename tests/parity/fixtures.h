// Reads the fixtures of tests/parity: the cases, and the results of the reference. Not thread-safe during the
// first call, which reads the files.
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

// Reduces the elements of a tensor to kProjections sums of them. In each sum, a hash of the tensor's name and
// of the element's index determines the sign of an element. The mean square of the sums estimates the square
// of the tensor's norm.
Projection project(const std::string& name, std::span<const double> values);

// Returns the tensors of a .safetensors file by name, as doubles.
std::map<std::string, std::vector<double>> read_tensors(const std::string& path);

class Fixtures {
 public:
  // Reads cases.json, expected.safetensors, and the cases and results of each model family in the folder sets/.
  Fixtures();

  const nlohmann::json& cases() const { return json_.at("cases"); }
  // Returns, for each case, the output files that run_glue.py (transformers' example script) writes: their names, keys and types.
  const nlohmann::json& outputs() const { return json_.at("outputs"); }
  // Returns the cases that test at which steps a run logs, evaluates and saves.
  const nlohmann::json& patterns() const { return json_.at("patterns"); }
  const nlohmann::json& first_batches() const { return json_.at("first_batches"); }
  // Returns the errors of Trainer's bf16 runs relative to fp64, by case.
  const nlohmann::json& bf16_errors() const { return json_.at("bf16_errors"); }
  // Returns the names of a model's tensors. The row i of stored projections belongs to the tensor i of this list.
  std::vector<std::string> tensor_names(const std::string& model) const;
  // Returns the values of a tensor of expected.safetensors, row by row.
  const std::vector<double>& expected(const std::string& name) const { return expected_.at(name); }
  Projection expected_projection(const std::string& name, size_t row) const;

  std::string path(const std::string& relative) const { return folder_ + "/" + relative; }
  // Returns the arguments of a case with the paths of this machine and an empty output folder.
  Arguments arguments(const nlohmann::json& settings, const std::string& output_dir) const;

 private:
  // Adds a set of cases. `stem` is the path of the set's files without the extension.
  void add_set(const std::string& stem);

  std::string folder_;
  nlohmann::json json_;
  std::map<std::string, std::vector<double>> expected_;
};

// Returns the fixtures. The first call reads their files.
const Fixtures& fixtures();

// Reads a JSON file. Throws if the file does not exist or is not JSON.
nlohmann::json read_json(const std::string& path);

// Returns true for the key bias of an attention, whose gradient is exactly zero: it adds the same number to
// all scores of a query, which softmax ignores. An engine computes only rounding errors for it, and AdamW
// makes steps of full size from them. Such tensors are compared separately, so that they do not hide errors
// of the others.
bool has_zero_gradient(const std::string& tensor_name);

}  // namespace plimsoll::testing
