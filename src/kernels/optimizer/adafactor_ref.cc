#include "kernels/optimizer/adafactor.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/optimizer/parameter_ref.h"

namespace plimsoll {
namespace {

struct Step {
  double clip, new_share;
};

// Updates the states of a tensor. The call operator then returns the factor by which Adafactor multiplies the gradient of an element.
class Factors {
 public:
  Factors(const AdafactorTensor& tensor, const AdafactorArgs& args, const Step& step) : tensor_(tensor) {
    const auto square = [&](int64_t i) {
      const double g = step.clip * tensor.grad.load(i);
      return g * g;
    };
    const auto blend = [&](const View& state, int64_t i, double mean) {
      state.store(i, (1.0 - step.new_share) * state.load(i) + step.new_share * (mean + args.epsilon1));
    };
    if (!tensor.is_matrix()) {
      for (int64_t i = 0; i < tensor.columns; ++i) blend(tensor.v, i, square(i));
      return;
    }
    const int64_t R = tensor.rows, C = tensor.columns;
    for (int64_t r = 0; r < R; ++r) {
      double sum = 0.0;
      for (int64_t c = 0; c < C; ++c) sum += square(r * C + c);
      blend(tensor.row, r, sum / static_cast<double>(C));
      mean_ += tensor.row.load(r) / static_cast<double>(R);
    }
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0.0;
      for (int64_t r = 0; r < R; ++r) sum += square(r * C + c);
      blend(tensor.column, c, sum / static_cast<double>(R));
    }
  }
  double at(int64_t i) const {
    if (!tensor_.is_matrix()) return 1.0 / std::sqrt(tensor_.v.load(i));
    const double row = tensor_.row.load(i / tensor_.columns) / mean_;
    return 1.0 / (std::sqrt(row) * std::sqrt(tensor_.column.load(i % tensor_.columns)));
  }

 private:
  const AdafactorTensor& tensor_;
  double mean_ = 0.0;
};

void update(const AdafactorTensor& tensor, const AdafactorArgs& args, const Step& step,
            const RandomSite& noise) {
  const Factors factors(tensor, args, step);
  const auto n = static_cast<double>(tensor.count());
  const auto u = [&](int64_t i) { return step.clip * tensor.grad.load(i) * factors.at(i); };
  double u_square = 0.0, p_square = 0.0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    u_square += u(i) * u(i);
    p_square += tensor.param.load(i) * tensor.param.load(i);
  }
  const double rate = adafactor_rate(args, std::sqrt(p_square / n));
  const double rms = std::sqrt(u_square / n) / args.clip_threshold;
  const double scale = rate / (rms > 1.0 || std::isnan(rms) ? rms : 1.0);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double change = scale * u(i);
    if (args.beta1) {
      change = *args.beta1 * tensor.m.load(i) + (1.0 - *args.beta1) * change;
      tensor.m.store(i, change);
    }
    const double p = tensor.param.load(i);
    store_parameter(tensor.parameter(), i, p - rate * args.weight_decay * p - change, noise);
  }
}

}  // namespace

double adafactor_new_share(const AdafactorArgs& args) {
  const int64_t step = args.step.as<int64_t>()[0];
  PLIMSOLL_CHECK(step >= 1, "the steps of Adafactor are numbered from 1, but this is step {}", step);
  PLIMSOLL_CHECK(args.decay_rate < 0.0, "the decay rate of Adafactor must be negative, but is {}",
                 args.decay_rate);
  PLIMSOLL_CHECK(args.clip_threshold > 0.0, "the clip threshold of Adafactor must be positive, but is {}",
                 args.clip_threshold);
  return std::pow(static_cast<double>(step), args.decay_rate);
}

double adafactor_rate(const AdafactorArgs& args, double param_rms) {
  const double lr = args.learning_rate.load(0);
  if (args.scale_by_parameter == ScaleByParameter::kNo) return lr;
  return lr * std::max(args.epsilon2, param_rms);
}

void adafactor_ref(const AdafactorArgs& args) {
  if (!update_allowed(args.finite)) return;
  const Step step{.clip = args.clip_coefficient ? args.clip_coefficient.load(0) : 1.0,
                  .new_share = adafactor_new_share(args)};
  for (size_t k = 0; k < args.tensors.size(); ++k) update(args.tensors[k], args, step, noise_of(args, k));
}

}  // namespace plimsoll
