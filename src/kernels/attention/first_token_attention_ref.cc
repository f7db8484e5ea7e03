#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/attention/first_token_attention.h"

namespace plimsoll {
namespace {

enum class Projection : uint8_t { kQuery, kKey, kValue };
enum class Factors : uint8_t { kAsTheyAre, kAbsolute };

// Computes one head of one sequence. With absolute values of all inputs and weights it computes the sums that the error bounds need.
class Head {
 public:
  Head(const FirstTokenAttentionArgs& args, int64_t sequence, int64_t head)
      : args_(args),
        head_(head),
        first_(args.cu_seqlens.as<int32_t>()[sequence]),
        count_(args.cu_seqlens.as<int32_t>()[sequence + 1] - first_) {}

  int64_t count() const { return count_; }
  double x(int64_t row, int64_t c) const { return args_.x_TC.load((first_ + row) * args_.columns + c); }
  double w(Projection part, int64_t d, int64_t c) const {
    return args_.w_3HDC.load(output(part, d) * args_.columns + c);
  }
  double bias(Projection part, int64_t d) const { return args_.bias_3HD.load(output(part, d)); }

  double projected(Projection part, int64_t row, int64_t d, Factors factors = Factors::kAsTheyAre) const {
    const bool absolute = factors == Factors::kAbsolute;
    double sum = absolute ? std::abs(bias(part, d)) : bias(part, d);
    for (int64_t c = 0; c < args_.columns; ++c) {
      const double term = x(row, c) * w(part, d, c);
      sum += absolute ? std::abs(term) : term;
    }
    return sum;
  }

  std::vector<double> probabilities() const {
    const int64_t D = args_.dims.head_dim;
    std::vector<double> q(static_cast<size_t>(D)), p(static_cast<size_t>(count_), 0.0);
    for (int64_t d = 0; d < D; ++d) q[static_cast<size_t>(d)] = projected(Projection::kQuery, 0, d);
    for (int64_t j = 0; j < count_; ++j) {
      double& score = p[static_cast<size_t>(j)];
      for (int64_t d = 0; d < D; ++d)
        score += args_.scale * q[static_cast<size_t>(d)] * projected(Projection::kKey, j, d);
    }
    const double largest = *std::ranges::max_element(p);
    double sum = 0.0;
    for (double& score : p) sum += score = std::exp(score - largest);
    for (double& score : p) score /= sum;
    return p;
  }

 private:
  int64_t output(Projection part, int64_t d) const {
    const AttentionDims& dims = args_.dims;
    return (static_cast<int64_t>(part) * dims.heads + head_) * dims.head_dim + d;
  }

  const FirstTokenAttentionArgs& args_;
  int64_t head_;
  int64_t first_;
  int64_t count_;
};

// Returns the vector u = scale W_k^T q, or the same with absolute values.
std::vector<double> key_sums(const FirstTokenAttentionArgs& args, const Head& head, Factors factors) {
  std::vector<double> u(static_cast<size_t>(args.columns), 0.0);
  for (int64_t d = 0; d < args.dims.head_dim; ++d) {
    const double q = args.scale * head.projected(Projection::kQuery, 0, d, factors);
    for (int64_t c = 0; c < args.columns; ++c) {
      const double w = head.w(Projection::kKey, d, c);
      u[static_cast<size_t>(c)] += q * (factors == Factors::kAbsolute ? std::abs(w) : w);
    }
  }
  return u;
}

struct Roundings {
  double sum = 0x1p-22;  // relative error of a term in a sum
  double type = 0;       // relative error of a rounded number
  double tiny = 0;       // absolute error of a rounded number near zero
};

double score_error(const FirstTokenAttentionArgs& args, const Head& head, const Roundings& by) {
  const std::vector<double> u = key_sums(args, head, Factors::kAsTheyAre);
  const std::vector<double> u_bar = key_sums(args, head, Factors::kAbsolute);
  const auto terms = static_cast<double>(2 * args.columns + args.dims.head_dim + 8);
  double error = 0.0;
  for (int64_t j = 0; j < head.count(); ++j) {
    double of_row = 0.0;
    for (size_t c = 0; c < u.size(); ++c) {
      const double x = std::abs(head.x(j, static_cast<int64_t>(c)));
      of_row += (terms * by.sum * u_bar[c] + by.type * std::abs(u[c]) + by.tiny) * x;
    }
    error = std::max(error, of_row);
  }
  return error;
}

}  // namespace

void first_token_attention_ref(const FirstTokenAttentionArgs& args) {
  const AttentionDims& dims = args.dims;
  PLIMSOLL_CHECK(args.x_TC && args.w_3HDC && args.bias_3HD && args.cu_seqlens && args.o_BHD,
                 "first_token_attention needs all of its operands, but at least one is null");
  for (int64_t b = 0; b < dims.sequences; ++b) {
    for (int64_t h = 0; h < dims.heads; ++h) {
      const Head head(args, b, h);
      const std::vector<double> p = head.count() > 0 ? head.probabilities() : std::vector<double>();
      for (int64_t d = 0; d < dims.head_dim; ++d) {
        double sum = 0.0;
        for (int64_t j = 0; j < head.count(); ++j)
          sum += p[static_cast<size_t>(j)] * head.projected(Projection::kValue, j, d);
        args.o_BHD.store((b * dims.heads + h) * dims.head_dim + d, sum);
      }
    }
  }
}

std::vector<double> first_token_attention_error_bounds(const FirstTokenAttentionArgs& args) {
  const AttentionDims& dims = args.dims;
  const bool f16 = args.x_TC.dtype == DType::kF16;
  const Roundings by{.type = f16 ? 0x1p-11 : 0x1p-8, .tiny = f16 ? 0x1p-25 : 0.0};
  std::vector<double> bounds;
  for (int64_t b = 0; b < dims.sequences; ++b) {
    for (int64_t h = 0; h < dims.heads; ++h) {
      const Head head(args, b, h);
      const std::vector<double> p = head.count() > 0 ? head.probabilities() : std::vector<double>();
      const double terms = static_cast<double>(head.count() + 2 * args.columns + 32);
      const double relative =
          std::expm1(2.0 * score_error(args, head, by)) + by.type + by.type * by.type + terms * by.sum;
      for (int64_t d = 0; d < dims.head_dim; ++d) {
        double o = 0.0, bar = 0.0, all = 0.0;
        for (int64_t j = 0; j < head.count(); ++j) {
          const double v_bar = head.projected(Projection::kValue, j, d, Factors::kAbsolute);
          o += p[static_cast<size_t>(j)] * head.projected(Projection::kValue, j, d);
          bar += p[static_cast<size_t>(j)] * v_bar;
          all += v_bar;
        }
        const double bias = by.sum * std::abs(head.bias(Projection::kValue, d));
        bounds.push_back(relative * bar + by.tiny * all + bias + by.type * std::abs(o) + by.tiny);
      }
    }
  }
  return bounds;
}

}  // namespace plimsoll
