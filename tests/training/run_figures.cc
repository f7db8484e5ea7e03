#include "tests/training/run_figures.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/file.h"
#include "io/ckpt/safetensors.h"

namespace plimsoll::testing {

RunFigures figures_of(const TrainOutput& output, const std::string& model_folder) {
  RunFigures result;
  for (const LogRecord& record : output.log_history) {
    if (!record.values.contains("loss")) continue;
    result.losses.push_back(record.values.at("loss"));
    result.norms.push_back(record.values.at("grad_norm"));
  }
  const SafetensorsFile file =
      SafetensorsFile::open(posix_file_system(), model_folder + "/model.safetensors");
  for (const StoredTensor& tensor : file.tensors()) {
    // The exact gradient of a key bias is zero, and AdamW makes steps of full size from its rounding errors, so
    // it is not compared.
    if (tensor.name.ends_with("self.key.bias")) continue;
    std::vector<double> values(static_cast<size_t>(tensor.num_elements()));
    file.read(tensor, {values.data(), DType::kF64});
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  return result;
}

// The limits are derived as follows. In the first step, losses and norms are sums of several hundred fp32 products, with errors of a few
// units of 2^-24. Twelve steps of AdamW with a learning rate of 1e-3 enlarge these differences. If a gradient is near zero, a rounding may
// change a large part of AdamW's step, so the weights are not compared one by one but as one vector. The limit is a hundred roundings for
// losses and a thousand for norms. The limit for weights is a thousandth of the largest possible change (12 * 1e-3 per element). A
// different dropout mask or row of data would change already the second digit.
void expect_equal_but_for_rounding(const RunFigures& a, const RunFigures& b) {
  ASSERT_EQ(a.losses.size(), 12u);
  ASSERT_EQ(b.losses.size(), 12u);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], 100 * 0x1p-24 * std::fabs(a.losses[i])) << "step " << i + 1;
    EXPECT_NEAR(a.norms[i], b.norms[i], 1000 * 0x1p-24 * std::fabs(a.norms[i])) << "step " << i + 1;
  }
  ASSERT_EQ(a.weights.size(), b.weights.size());
  double square = 0;
  for (size_t i = 0; i < a.weights.size(); ++i)
    square += (a.weights[i] - b.weights[i]) * (a.weights[i] - b.weights[i]);
  EXPECT_LE(std::sqrt(square / static_cast<double>(a.weights.size())), 1e-3 * 12 * 1e-3);
}

}  // namespace plimsoll::testing
