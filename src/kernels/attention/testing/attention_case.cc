#include "kernels/attention/testing/attention_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device/cpu/cpu_features.h"
#include "device/cpu/parallel.h"

namespace plimsoll::test {
namespace {

int64_t total(const AttentionProblem& problem) {
  return std::accumulate(problem.lengths.begin(), problem.lengths.end(), problem.tail);
}

}  // namespace

AttentionCase::AttentionCase(const AttentionProblem& problem)
    : cu_seqlens(problem.name + "/cu_seqlens", DType::kI32, static_cast<int64_t>(problem.lengths.size()) + 1),
      o(problem.name + "/o", problem.dtype, total(problem) * problem.heads * problem.head_dim),
      lse(problem.name + "/lse", DType::kF32, total(problem) * problem.heads),
      d_o(problem.name + "/d_o", problem.dtype, total(problem) * problem.heads * problem.head_dim),
      problem_(problem) {
  used_rows_ = total(problem) - problem.tail;
  dims_.tokens = total(problem);
  dims_.sequences = static_cast<int64_t>(problem.lengths.size());
  dims_.heads = problem.heads;
  dims_.head_dim = problem.head_dim;
  dims_.kv_heads = problem.kv_heads;
  dims_.window = problem.window;
  options_.scale = 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
  options_.mask = problem.mask;
  options_.dropout = problem.dropout;
  options_.random = {tensor_seed(problem.name), 17, 3};

  int64_t first = 0;
  std::vector<double> cu{0.0};
  for (int64_t length : problem.lengths) {
    first_rows_.push_back(first);
    first += length;
    cu.push_back(static_cast<double>(first));
    dims_.longest = std::max(dims_.longest, length + problem.longest_slack);
  }
  cu_seqlens.assign(cu);

  for (int slot = 0; slot < static_cast<int>(num_slots()); ++slot) {
    const std::string number = std::to_string(slot);
    const int64_t count = dims_.tokens * stride_of(slot);
    qkv_.push_back(std::make_unique<GuardedBuffer>(problem.name + "/qkv" + number, problem.dtype, count));
    d_qkv_.push_back(std::make_unique<GuardedBuffer>(problem.name + "/d_qkv" + number, problem.dtype, count));
    fill_normal(qkv_.back()->view(), used_rows_ * stride_of(slot), qkv_.back()->name());
  }
  fill_normal(d_o.view(), used_rows_ * dims_.heads * dims_.head_dim, d_o.name());
}

std::unique_ptr<AttentionCase> AttentionCase::in_double() const {
  AttentionProblem problem = problem_;
  problem.dtype = DType::kF64;
  auto copy = std::make_unique<AttentionCase>(problem);
  copy->options_ = options_;
  for (size_t slot = 0; slot < qkv_.size(); ++slot) copy->qkv_[slot]->assign(qkv_[slot]->to_doubles());
  copy->d_o.assign(d_o.to_doubles());
  return copy;
}

int64_t AttentionCase::stride_of(int part) const {
  const int64_t heads =
      problem_.layout == QkvLayout::kOneTensor ? heads_of(0) + 2 * heads_of(1) : heads_of(part);
  return heads * problem_.head_dim;
}

int64_t AttentionCase::index(int part, int64_t t, int64_t h, int64_t d) const {
  int64_t heads_before = 0;
  for (int i = 0; problem_.layout == QkvLayout::kOneTensor && i < part; ++i) heads_before += heads_of(i);
  return t * stride_of(part) + (heads_before + h) * problem_.head_dim + d;
}

double AttentionCase::load(int part, int64_t t, int64_t h, int64_t d) const {
  return qkv_[layout_slot(part)]->load(index(part, t, h, d));
}

ConstRows AttentionCase::rows(int part) const {
  GuardedBuffer& buffer = *qkv_[layout_slot(part)];
  return {buffer.view_from(index(part, 0, 0, 0)), stride_of(part)};
}

AttentionFwdArgs AttentionCase::fwd_args(Implementation implementation) {
  const int64_t bytes = implementation == Implementation::kRef
                            ? attention_fwd_ref_scratch_bytes(dims_)
                            : attention_fwd_cpu_scratch_bytes(dims_, num_threads());
  scratch_ = std::make_unique<GuardedBuffer>(problem_.name + "/scratch", DType::kU8, bytes);
  return {dims_,    options_,   rows(0),          rows(1), rows(2), cu_seqlens.view(),
          o.view(), lse.view(), scratch_->view(), bytes};
}

AttentionBwdArgs AttentionCase::bwd_args(Implementation implementation) {
  const int64_t bytes = implementation == Implementation::kRef
                            ? attention_bwd_ref_scratch_bytes(dims_)
                            : attention_bwd_cpu_scratch_bytes(dims_, num_threads());
  scratch_ = std::make_unique<GuardedBuffer>(problem_.name + "/scratch", DType::kU8, bytes);
  const auto d_rows = [&](int part) {
    return Rows{d_qkv(part).view_from(index(part, 0, 0, 0)), stride_of(part)};
  };
  return {dims_,      options_,   rows(0),   rows(1),   rows(2),   cu_seqlens.view(), o.view(),
          lse.view(), d_o.view(), d_rows(0), d_rows(1), d_rows(2), scratch_->view(),  bytes};
}

std::vector<double> AttentionCase::gradient(int part) {
  std::vector<double> values;
  for (int64_t t = 0; t < dims_.tokens; ++t) {
    for (int64_t h = 0; h < heads_of(part); ++h) {
      for (int64_t d = 0; d < dims_.head_dim; ++d) values.push_back(d_qkv(part).load(index(part, t, h, d)));
    }
  }
  return values;
}

void AttentionCase::forward(Implementation implementation) {
  const AttentionFwdArgs args = fwd_args(implementation);
  implementation == Implementation::kRef ? attention_fwd_ref(args) : attention_fwd_cpu(args);
}

void AttentionCase::backward(Implementation implementation) {
  const AttentionBwdArgs args = bwd_args(implementation);
  implementation == Implementation::kRef ? attention_bwd_ref(args) : attention_bwd_cpu(args);
}

bool AttentionCase::guards_intact() const {
  bool intact = scratch_ == nullptr || scratch_->broken_guard() == GuardedBuffer::kIntact;
  for (const GuardedBuffer* buffer : {&o, &lse, &d_o, &cu_seqlens}) {
    intact = intact && buffer->broken_guard() == GuardedBuffer::kIntact;
  }
  for (const auto* group : {&qkv_, &d_qkv_}) {
    for (const auto& buffer : *group) intact = intact && buffer->broken_guard() == GuardedBuffer::kIntact;
  }
  return intact;
}

namespace {

// Computes the error bound of attention.h for one sequence and head. The variables are named like the symbols of the formulas there.
class HeadBounds {
 public:
  HeadBounds(const AttentionCase& exact, const AttentionRounding& rounding, int64_t b, int64_t h,
             AttentionBounds& out)
      : exact_(exact),
        out_(out),
        first_(exact.first_rows()[static_cast<size_t>(b)]),
        count_(exact.problem().lengths[static_cast<size_t>(b)]),
        head_dim_(exact.dims().head_dim),
        h_(h),
        reach_{exact.options().mask, exact.dims().window, count_},
        u_(rounding.u),
        r_(rounding.r),
        s_(rounding.s),
        w_(rounding.w),
        t_(rounding.t) {}

  void add_row(int64_t i) {
    const AttentionOptions& options = exact_.options();
    const int64_t first = reach_.first_key(i);
    const int64_t n = reach_.end_key(i) - first;
    const double depth = static_cast<double>(head_dim_);
    const double terms = static_cast<double>(n);
    std::vector<double> x(static_cast<size_t>(n));
    double e = 0;
    for (int64_t j = 0; j < n; ++j) {
      double magnitude = 0;
      for (int64_t d = 0; d < head_dim_; ++d) {
        x[static_cast<size_t>(j)] += options.scale * q(i, d) * k(first + j, d);
        magnitude += std::abs(options.scale * q(i, d) * k(first + j, d));
      }
      e = std::max(e, ((depth + 4) * u_ + 2 * t_) * magnitude);
    }
    const double largest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (double score : x) sum += std::exp(score - largest);
    const double lse = largest + std::log(sum);
    out_.lse[lse_at(i)] = 2 * e + (terms + 8 + std::abs(lse)) * u_;

    std::vector<double> o(static_cast<size_t>(head_dim_)), o_magnitude(o);
    for (int64_t j = 0; j < n; ++j) {
      const double p = std::exp(x[static_cast<size_t>(j)] - lse) * factor(i, first + j);
      for (int64_t d = 0; d < head_dim_; ++d) {
        o[static_cast<size_t>(d)] += p * v(first + j, d);
        o_magnitude[static_cast<size_t>(d)] += p * std::abs(v(first + j, d));
      }
    }
    const double largest_factor =
        options.dropout > 0 ? static_cast<double>(dropout_scale(options.dropout)) : 1.0;
    double delta = 0;
    double delta_magnitude = 0;
    double delta_error = 0;
    for (int64_t d = 0; d < head_dim_; ++d) {
      const size_t at = static_cast<size_t>(d);
      double o_error =
          (2 * e + (2 * terms + 16) * u_ + s_ + t_) * o_magnitude[at] + r_ * std::abs(o[at]) + w_;
      for (int64_t j = 0; j < n && w_ > 0; ++j) o_error += w_ * largest_factor * std::abs(v(first + j, d));
      out_.o[element(i, d)] = o_error;
      delta += d_o(i, d) * o[at];
      delta_magnitude += std::abs(d_o(i, d) * o[at]);
      delta_error += std::abs(d_o(i, d)) * o_error;
    }
    const double eta = 3 * e + (terms + 16 + 3 * std::abs(lse)) * u_;
    for (int64_t j = 0; j < n; ++j) {
      const double m = factor(i, first + j);
      double y = 0;
      double y_magnitude = 0;
      for (int64_t d = 0; d < head_dim_; ++d) {
        y += m * d_o(i, d) * v(first + j, d);
        y_magnitude += m * std::abs(d_o(i, d) * v(first + j, d));
      }
      const double p = std::exp(x[static_cast<size_t>(j)] - lse);
      const double d_x = std::abs(p * (y - delta));
      const double d_x_error =
          p * ((eta + 4 * u_) * std::abs(y - delta) +
               ((depth + 4) * u_ * (y_magnitude + delta_magnitude) + 2 * t_ * y_magnitude) + delta_error);
      const double whole = static_cast<double>(count_ * exact_.dims().group_heads()) + 4;
      for (int64_t d = 0; d < head_dim_; ++d) {
        out_.d_q[element(i, d)] +=
            options.scale * (d_x_error + ((terms + 4) * u_ + s_ + t_) * d_x + w_) * std::abs(k(first + j, d));
        out_.d_k[kv_element(first + j, d)] +=
            options.scale * (d_x_error + (whole * u_ + s_ + t_) * d_x + w_) * std::abs(q(i, d));
        out_.d_v[kv_element(first + j, d)] +=
            ((eta + whole * u_ + s_ + t_) * p * m + w_ * largest_factor) * std::abs(d_o(i, d));
      }
    }
  }

 private:
  double q(int64_t i, int64_t d) const { return exact_.load(0, first_ + i, h_, d); }
  double k(int64_t j, int64_t d) const { return exact_.load(1, first_ + j, kv_head(), d); }
  double v(int64_t j, int64_t d) const { return exact_.load(2, first_ + j, kv_head(), d); }
  size_t element(int64_t i, int64_t d) const {
    return static_cast<size_t>(((first_ + i) * exact_.dims().heads + h_) * head_dim_ + d);
  }
  int64_t kv_head() const { return h_ / exact_.dims().group_heads(); }
  size_t kv_element(int64_t j, int64_t d) const {
    return static_cast<size_t>(((first_ + j) * exact_.dims().num_kv_heads() + kv_head()) * head_dim_ + d);
  }
  size_t lse_at(int64_t i) const { return static_cast<size_t>(h_ * exact_.dims().tokens + first_ + i); }
  double d_o(int64_t i, int64_t d) const { return exact_.d_o.load(static_cast<int64_t>(element(i, d))); }
  double factor(int64_t i, int64_t j) const {
    const AttentionOptions& options = exact_.options();
    if (options.dropout == 0) return 1;
    const uint64_t row = attention_row(first_ + i, exact_.dims().heads, h_);
    const bool keep = attention_number(options.random, row, j) >= dropout_threshold(options.dropout);
    return keep ? static_cast<double>(dropout_scale(options.dropout)) : 0;
  }

  const AttentionCase& exact_;
  AttentionBounds& out_;
  int64_t first_, count_, head_dim_, h_;
  AttentionReach reach_;
  double u_, r_, s_, w_, t_;
};

}  // namespace

AttentionBounds attention_bounds(const AttentionCase& exact, DType dtype) {
  const bool tiles = dtype == DType::kBF16 && may_use_amx_tiles();
  AttentionRounding rounding;
  rounding.r = dtype == DType::kBF16 ? 0x1p-8 : 0.0;
  rounding.s = tiles ? 0x1p-8 : 0.0;
  return attention_bounds(exact, rounding);
}

AttentionBounds attention_bounds(const AttentionCase& exact, const AttentionRounding& rounding) {
  AttentionBounds bounds;
  const int64_t kv_elements = exact.o.count() / exact.dims().group_heads();
  for (auto* part : {&bounds.o, &bounds.d_q}) part->resize(static_cast<size_t>(exact.o.count()));
  for (auto* part : {&bounds.d_k, &bounds.d_v}) part->resize(static_cast<size_t>(kv_elements));
  bounds.lse.resize(static_cast<size_t>(exact.lse.count()));
  for (int64_t b = 0; b < exact.dims().sequences; ++b) {
    for (int64_t h = 0; h < exact.dims().heads; ++h) {
      HeadBounds head(exact, rounding, b, h, bounds);
      for (int64_t i = 0; i < exact.problem().lengths[static_cast<size_t>(b)]; ++i) head.add_row(i);
    }
  }
  return bounds;
}

}  // namespace plimsoll::test
