// Test cases of attention: tensors for both passes with guard bytes around them, results in double precision, and the error bound of
// attention.h. Thread-safety: none; use one object per test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

// Sequence lengths, among them lengths below, at and above the tile sizes of the kernels (16, 64 and 128 rows).
inline const std::vector<int64_t> kRagged = {7, 0, 64, 1, 129, 2, 65};

// Returns the name of the running test with its suite. Tests use it as the seed of their tensors.
inline std::string test_name() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

// States whether q, k and v are ranges of the columns of one tensor, as a joint projection computes them, or three separate tensors.
enum class QkvLayout : uint8_t { kOneTensor, kThreeTensors };

struct AttentionProblem {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t tail = 0;
  int64_t heads = 1;
  int64_t head_dim = 1;
  AttentionMask mask = AttentionMask::kBidirectional;
  double dropout = 0.0;
  DType dtype = DType::kF32;
  QkvLayout layout = QkvLayout::kOneTensor;
  // dims.longest is an upper bound of the sequence lengths. It exceeds the longest sequence by this number of rows.
  int64_t longest_slack = 0;
  int64_t kv_heads = 0;  // number of heads of k and v; 0 means as many as `heads`
  int64_t window = 0;    // window of attention.h; 0 means no limit

  int64_t num_kv_heads() const { return kv_heads == 0 ? heads : kv_heads; }
};

enum class Implementation : uint8_t { kCpu, kRef };

// The tensors of one attention problem. Inputs are random, except that tail rows (unused rows after the last sequence) are filled with NaN,
// so that results of a kernel that reads them are NaN. Outputs are filled with NaN at the start.
class AttentionCase {
 public:
  explicit AttentionCase(const AttentionProblem& problem);
  // Returns a copy with the same inputs in double precision and with NaN in all outputs. The tests run the reference on it.
  std::unique_ptr<AttentionCase> in_double() const;

  AttentionFwdArgs fwd_args(Implementation implementation);
  AttentionBwdArgs bwd_args(Implementation implementation);
  void forward(Implementation implementation);
  void backward(Implementation implementation);

  // Returns the index of element (t, h, d) in the memory of q (part 0), k (part 1) or v (part 2). The gradient of the element has the same
  // index.
  int64_t index(int part, int64_t t, int64_t h, int64_t d) const;
  GuardedBuffer& qkv(int part) { return *qkv_[layout_slot(part)]; }
  GuardedBuffer& d_qkv(int part) { return *d_qkv_[layout_slot(part)]; }
  double load(int part, int64_t t, int64_t h, int64_t d) const;
  int64_t heads_of(int part) const { return part == 0 ? problem_.heads : problem_.num_kv_heads(); }
  // Returns the gradient of q (part 0), k (part 1) or v (part 2) as [T, heads_of(part), D] doubles.
  std::vector<double> gradient(int part);

  const AttentionProblem& problem() const { return problem_; }
  const AttentionDims& dims() const { return dims_; }
  const AttentionOptions& options() const { return options_; }
  AttentionOptions& options() { return options_; }
  int64_t used_rows() const { return used_rows_; }
  const std::vector<int64_t>& first_rows() const { return first_rows_; }
  bool guards_intact() const;

  GuardedBuffer cu_seqlens, o, lse, d_o;

 private:
  size_t layout_slot(int part) const {
    return problem_.layout == QkvLayout::kOneTensor ? 0u : static_cast<size_t>(part);
  }
  int64_t stride_of(int part) const;
  size_t num_slots() const { return problem_.layout == QkvLayout::kOneTensor ? 1 : 3; }
  ConstRows rows(int part) const;

  AttentionProblem problem_;
  AttentionDims dims_;
  AttentionOptions options_;
  int64_t used_rows_ = 0;
  std::vector<int64_t> first_rows_;
  std::vector<std::unique_ptr<GuardedBuffer>> qkv_, d_qkv_;
  std::unique_ptr<GuardedBuffer> scratch_;
};

// The symbols of the error bound in attention.h whose values depend on the implementation, with the names that the formulas there use.
struct AttentionRounding {
  double u = 0x1p-24;
  double r = 0.0;
  double s = 0.0;
  double w = 0.0;
  double t = 0.0;
};

// The largest error that attention.h allows, for each element of the results.
struct AttentionBounds {
  std::vector<double> o, lse;
  std::vector<double> d_q, d_k, d_v;  // shape [T, H, D] for q and [T, G, D] for k and v
};
AttentionBounds attention_bounds(const AttentionCase& exact, const AttentionRounding& rounding);
// Returns the largest errors that attention.h allows for the *_cpu functions and tensors of this type.
AttentionBounds attention_bounds(const AttentionCase& exact, DType dtype);

}  // namespace plimsoll::test
