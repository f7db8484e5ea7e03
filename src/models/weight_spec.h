// A weight of a model: its shape, its initial distribution, and the tensors of a checkpoint that fill it. Values only.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

enum class Initializer : uint8_t {
  kNormal,  // normally distributed with the standard deviation that WeightSpec::deviation describes
  kZeros,
  kOnes,
  // Uniform between -1 / sqrt(columns) and 1 / sqrt(columns), as PyTorch's kaiming_uniform_ with a = sqrt(5).
  kUniform
};

// A tensor of a checkpoint that provides some rows of a weight, or all of them. `disk_names` contains the names that the tensor may have,
// which are tried in order.
struct WeightPart {
  std::vector<std::string> disk_names;
  int64_t first_row = 0;  // first row of the weight that the tensor fills
  int64_t num_rows = 0;
  // Additional names under which a saved model contains the tensor, because versions of transformers read different names.
  std::vector<std::string> copies = {};
};

struct WeightSpec {
  std::string name;  // name of the weight's value in the graph
  std::vector<int64_t> shape;
  Initializer initializer = Initializer::kNormal;
  // True if weight decay applies to the weight; it does not to biases and norms, as in Hugging Face's Trainer.
  bool decays = true;
  std::vector<WeightPart> parts;
  int64_t zero_row = -1;     // the row of the padding token, which starts as zero, or -1 if no row does
  double rate_factor = 1.0;  // factor by which the learning rate of the weight is multiplied
  // False if the weight is frozen: it has no gradient and no optimizer states, and keeps its loaded values.
  bool trainable = true;
  // The files that contain the weight: model files, adapter files (under PEFT's names), or both.
  bool in_model = true;
  bool in_adapter = false;
  // True for a table with one row per token of the vocabulary or per position. Adapters apply to linear layers, not to tables.
  bool is_table = false;
  bool transposed = false;  // true if a checkpoint stores the transposed matrix, as GPT-2's Conv1D does
  // Parameters of Initializer::kNormal: the standard deviation is `deviation` (initializer_range if not set) times `normal_scale`. Values
  // beyond `cutoff` standard deviations are not drawn, unless `cutoff` is 0.
  double normal_scale = 1.0;
  double cutoff = 0.0;
  std::optional<double> deviation = {};

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return n;
  }
  // Returns the number of rows of a unit. A fused weight (for example query, key and value in one matrix) is quantized in units, which are
  // blocks of rows of equal size, so that each of its `parts` consists of whole units. The number is the greatest common divisor of the
  // numbers of rows of the parts, which differ if there are more heads of queries than of keys.
  int64_t rows_per_unit() const {
    int64_t rows = 0;
    for (const WeightPart& part : parts) rows = std::gcd(rows, part.num_rows);
    return rows > 0 ? rows : shape.front();
  }
};

// The weights of a run's model. Copies of an object share one list, which is immutable. Thread-safe.
class WeightList {
 public:
  WeightList() = default;
  WeightList(std::vector<WeightSpec> specs)  // NOLINT: implicit, so that a list of weights can be passed
      : specs_(std::make_shared<const std::vector<WeightSpec>>(std::move(specs))) {}

  const std::vector<WeightSpec>& specs() const {
    static const std::vector<WeightSpec> none;
    return specs_ ? *specs_ : none;
  }
  operator const std::vector<WeightSpec>&() const { return specs(); }  // NOLINT: implicit, to the list
  auto begin() const { return specs().begin(); }
  auto end() const { return specs().end(); }
  size_t size() const { return specs().size(); }
  bool empty() const { return specs().empty(); }
  const WeightSpec& front() const { return specs().front(); }
  const WeightSpec& operator[](size_t i) const { return specs()[i]; }

 private:
  std::shared_ptr<const std::vector<WeightSpec>> specs_;
};

}  // namespace plimsoll
