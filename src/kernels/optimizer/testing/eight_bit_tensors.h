// Tensors with states in 8 bits for tests, and the comparison with the error bounds of the contracts. For tests only; not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/eight_bit.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/sgd.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

// Numbers of elements of the tested tensors: one, about one quantization block of 256 elements, and several tasks (tensor_list.h).
inline const std::vector<int64_t> kEightBitCounts = {1, 7, 255, 256, 257, 1024, 3, 20000, 40003, 4096};

// A list of tensors whose optimizer states m and v are 8-bit codes. param, grad and the absmax arrays have the type `dtype`.
class EightBitList {
 public:
  EightBitList(const std::string& name, DType dtype, const std::vector<int64_t>& counts) {
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t blocks = eight_bit_blocks(counts[i]);
      const auto make = [&](const char* part, DType type, int64_t n) {
        buffers_.push_back(std::make_unique<GuardedBuffer>(name + "/" + part + std::to_string(i), type, n));
        return buffers_.back()->view();
      };
      OptimizerTensor tensor{.count = counts[i]};
      tensor.param = make("param", dtype, counts[i]);
      tensor.grad = make("grad", dtype, counts[i]);
      tensor.m = make("m", DType::kU8, counts[i]);
      tensor.m_absmax = make("m_absmax", dtype, blocks);
      tensor.v = make("v", DType::kU8, counts[i]);
      tensor.v_absmax = make("v_absmax", dtype, blocks);
      tensors_.push_back(tensor);
    }
  }
  size_t size() const { return tensors_.size(); }
  const std::vector<OptimizerTensor>& tensors() const { return tensors_; }
  std::vector<OptimizerTensor>& mutable_tensors() { return tensors_; }
  GuardedBuffer& param(size_t i) { return *buffers_[6 * i]; }
  GuardedBuffer& grad(size_t i) { return *buffers_[6 * i + 1]; }
  GuardedBuffer& m(size_t i) { return *buffers_[6 * i + 2]; }
  GuardedBuffer& m_absmax(size_t i) { return *buffers_[6 * i + 3]; }
  GuardedBuffer& v(size_t i) { return *buffers_[6 * i + 4]; }
  GuardedBuffer& v_absmax(size_t i) { return *buffers_[6 * i + 5]; }
  std::vector<GuardedBuffer*> states(size_t i) { return {&m(i), &m_absmax(i), &v(i), &v_absmax(i)}; }

  // Fills in arbitrary codes, and gradients whose magnitudes range over four powers of ten, as in real models.
  void fill() {
    for (size_t i = 0; i < size(); ++i) {
      param(i).fill_normal();
      grad(i).fill_normal();
      for (int64_t j = 0; j < grad(i).count(); ++j) {
        grad(i).view().store(j, grad(i).load(j) * std::pow(10.0, -static_cast<double>(j % 5)));
        m(i).view().as<uint8_t>()[j] = static_cast<uint8_t>((j * 37 + 11) % 256);
        v(i).view().as<uint8_t>()[j] = static_cast<uint8_t>((j * 29 + 5) % 256);
      }
      m_absmax(i).fill_uniform(0.01, 0.5);
      v_absmax(i).fill_uniform(0.001, 0.2);
    }
  }
  // Changes the codes of m to those of numbers that are not negative, as the sums of squares of Adagrad are. Code 127 represents 0.
  void make_states_positive() {
    for (size_t i = 0; i < size(); ++i) {
      for (int64_t j = 0; j < m(i).count(); ++j) {
        uint8_t& code = m(i).view().as<uint8_t>()[j];
        code = static_cast<uint8_t>(127 + code % 129);
      }
    }
  }
  void copy_from(EightBitList& other) {
    for (size_t i = 0; i < size(); ++i) {
      param(i).assign(other.param(i).to_doubles());
      grad(i).assign(other.grad(i).to_doubles());
      m_absmax(i).assign(other.m_absmax(i).to_doubles());
      v_absmax(i).assign(other.v_absmax(i).to_doubles());
      std::copy_n(other.m(i).view().as<uint8_t>(), other.m(i).count(), m(i).view().as<uint8_t>());
      std::copy_n(other.v(i).view().as<uint8_t>(), other.v(i).count(), v(i).view().as<uint8_t>());
    }
  }

 private:
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::vector<OptimizerTensor> tensors_;
};

// For each element, the exact new state in double before it is rounded to 8 bits, and the bound on a kernel's error of this state.
struct ExactState {
  std::vector<double> x, error;
};

// Checks that the codes and absmax that a kernel computed are possible within the error bound. Returns the number of codes that are not the
// nearest to the exact state.
inline int64_t expect_codes(EightBitSign sign, const ExactState& exact, GuardedBuffer& codes,
                            GuardedBuffer& absmax) {
  const auto& numbers = eight_bit_map(sign).numbers;
  int64_t differing = 0;
  for (int64_t first = 0; first < codes.count(); first += kEightBitBlock) {
    const int64_t last = std::min(first + kEightBitBlock, codes.count());
    double largest = 0.0, largest_error = 0.0;
    for (int64_t i = first; i < last; ++i) {
      largest = std::max(largest, std::fabs(exact.x[static_cast<size_t>(i)]));
      largest_error = std::max(largest_error, exact.error[static_cast<size_t>(i)]);
    }
    EXPECT_NEAR(absmax.load(first / kEightBitBlock), largest, largest_error + 0x1p-24 * largest);
    for (int64_t i = first; i < last; ++i) {
      const double quotient = exact.x[static_cast<size_t>(i)] / largest;
      const int want = nearest_eight_bit_code(sign, quotient);
      const int got = static_cast<int>(codes.load(i));
      if (got == want) continue;
      ++differing;
      EXPECT_EQ(std::abs(got - want), 1) << codes.name() << " " << i << " of " << quotient;
      const double middle = 0.5 * (static_cast<double>(numbers[static_cast<size_t>(got)]) +
                                   static_cast<double>(numbers[static_cast<size_t>(want)]));
      EXPECT_LE(std::fabs(quotient - middle),
                eight_bit_quotient_error(std::fabs(quotient), exact.error[static_cast<size_t>(i)], largest,
                                         largest_error))
          << codes.name() << " " << i;
    }
  }
  return differing;
}

// Checks one AdamW update of `start` by a kernel (`got`) within the error bounds of adamw.h.
inline void expect_adamw_8bit(EightBitList& start, EightBitList& want, EightBitList& got,
                              const AdamwArgs& args) {
  const AdamwCoefficients c = adamw_coefficients(args);
  int64_t differing = 0, total = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    const auto count = static_cast<size_t>(start.param(i).count());
    ExactState m{std::vector<double>(count), {}}, v{std::vector<double>(count), {}};
    for (int64_t block = 0; block < eight_bit_blocks(start.param(i).count()); ++block) {
      const size_t first = static_cast<size_t>(block * kEightBitBlock);
      const size_t n = std::min<size_t>(kEightBitBlock, count - first);
      load_eight_bit_ref({start.m(i).view(), start.m_absmax(i).view(), EightBitSign::kSigned}, block,
                         std::span(m.x).subspan(first, n));
      load_eight_bit_ref({start.v(i).view(), start.v_absmax(i).view(), EightBitSign::kUnsigned}, block,
                         std::span(v.x).subspan(first, n));
    }
    std::vector<double> limits;
    for (size_t j = 0; j < count; ++j) {
      const auto at = static_cast<int64_t>(j);
      const double g = c.clip * start.grad(i).load(at);
      const double m_old = m.x[j], v_old = v.x[j];
      m.x[j] += c.one_minus_beta1 * (g - m.x[j]);
      v.x[j] += c.one_minus_beta2 * (g * g - v.x[j]);
      const double denominator = std::sqrt(v.x[j]) * c.inverse_sqrt_bc2 + args.epsilon;
      const double m_size = std::max(std::fabs(m_old), std::fabs(m.x[j]));
      AdamwErrorBound bound =
          adamw_error_bound(c, std::fabs(start.param(i).load(at)), m_size, std::max(v_old, v.x[j]),
                            std::fabs(start.grad(i).load(at)), denominator);
      // Before the update, the kernel computes a state as the product of the number that its code represents and of absmax, which it rounds
      // once.
      bound.m += 0x1p-24 * std::fabs(m_old);
      bound.v += 0x1p-24 * v_old;
      bound.param += 2.0 * 0x1p-24 * c.step_size * m_size / denominator;
      m.error.push_back(bound.m);
      v.error.push_back(bound.v);
      limits.push_back(bound.param);
    }
    const auto param = compare(got.param(i), want.param(i), {.per_element = limits});
    EXPECT_TRUE(param.ok()) << "tensor " << i << " param " << param;
    differing += expect_codes(EightBitSign::kSigned, m, got.m(i), got.m_absmax(i));
    differing += expect_codes(EightBitSign::kUnsigned, v, got.v(i), got.v_absmax(i));
    total += 2 * start.param(i).count();
  }
  // About one element in a thousand is within 1e-6 of the limit between two codes. Rounding may select the other code for these.
  EXPECT_LE(static_cast<double>(differing), 1e-3 * static_cast<double>(total) + 2.0);
}

// Checks one update of `start` by a kernel (`got`) of an optimizer with one state, within the error bounds. update(p, g, m, m_error) must
// compute the exact new m of one element and a bound on the error of m, and must return the bound on the error of the parameter.
template <typename Update>
void expect_one_state_8bit(EightBitList& start, EightBitList& want, EightBitList& got, const Update& update) {
  for (size_t i = 0; i < start.size(); ++i) {
    const auto count = static_cast<size_t>(start.param(i).count());
    ExactState m{std::vector<double>(count), std::vector<double>(count)};
    for (int64_t block = 0; block < eight_bit_blocks(start.param(i).count()); ++block) {
      const size_t first = static_cast<size_t>(block * kEightBitBlock);
      load_eight_bit_ref({start.m(i).view(), start.m_absmax(i).view(), EightBitSign::kSigned}, block,
                         std::span(m.x).subspan(first, std::min<size_t>(kEightBitBlock, count - first)));
    }
    std::vector<double> limits;
    for (size_t j = 0; j < count; ++j) {
      const auto at = static_cast<int64_t>(j);
      limits.push_back(update(start.param(i).load(at), start.grad(i).load(at), m.x[j], m.error[j]));
    }
    const auto param = compare(got.param(i), want.param(i), {.per_element = limits});
    EXPECT_TRUE(param.ok()) << "tensor " << i << " param " << param;
    expect_codes(EightBitSign::kSigned, m, got.m(i), got.m_absmax(i));
  }
}

inline void expect_lion_8bit(EightBitList& start, EightBitList& want, EightBitList& got,
                             const LionArgs& args) {
  const LionCoefficients k = lion_coefficients(args);
  expect_one_state_8bit(start, want, got, [&](double p, double g, double& m, double& m_error) {
    const LionErrorBound bound = lion_error_bound(k, p, m, g);
    m_error = bound.m + 0x1p-24 * std::fabs(m);
    // With m in 8 bits, c (lion.h) contains one more rounding, that of m. If c is closer to 0 than its error, its sign may differ.
    const double c = k.beta1 * m + (1.0 - k.beta1) * k.clip * g;
    const double c_size = k.beta1 * std::fabs(m) + (1.0 - k.beta1) * std::fabs(k.clip * g);
    m += (1.0 - k.beta2) * (k.clip * g - m);
    return bound.param + (std::fabs(c) <= 6.0 * 0x1p-24 * c_size ? 2.0 * k.lr : 0.0);
  });
}

inline void expect_sgd_8bit(EightBitList& start, EightBitList& want, EightBitList& got, const SgdArgs& args) {
  const double lr = args.learning_rate.load(0), clip = args.clip_coefficient.load(0);
  const bool starts = args.step.as<int64_t>()[0] == 1;
  expect_one_state_8bit(start, want, got, [&](double p, double g, double& m, double& m_error) {
    const SgdErrorBound bound = sgd_8bit_error_bound(lr, args.momentum, args.weight_decay, std::fabs(p),
                                                     starts ? 0.0 : std::fabs(m), clip * std::fabs(g));
    m_error = bound.m;
    m = (starts ? 0.0 : args.momentum * m) + clip * g + args.weight_decay * p;
    return bound.param;
  });
}

inline void expect_adagrad_8bit(EightBitList& start, EightBitList& want, EightBitList& got,
                                const AdagradArgs& args) {
  const double rate = adagrad_rate(args), clip = args.clip_coefficient.load(0);
  expect_one_state_8bit(start, want, got, [&](double p, double g, double& v, double& v_error) {
    const double gradient = clip * std::fabs(g) + args.weight_decay * std::fabs(p);
    const double sum = clip * g + args.weight_decay * p, v_old = v;
    v += sum * sum;
    const AdagradErrorBound bound =
        adagrad_8bit_error_bound(rate, args.epsilon, std::fabs(p), gradient, v_old, v);
    v_error = bound.v;
    return bound.param;
  });
}

}  // namespace plimsoll::test
