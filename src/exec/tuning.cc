#include "exec/tuning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/philox.h"
#include "base/view.h"
#include "plan/compile/kernel_choice.h"

namespace plimsoll {

namespace {

class Tuner {
 public:
  Tuner(const Plan& plan, ProductMeasurer& measurer, const TuningLimits& limits)
      : plan_(plan), measurer_(measurer), limits_(limits), begin_(measurer.seconds()) {
    const TuningTable& previous = plan.request.products.tuning;
    const bool holds = previous.card == measurer.card() && previous.library == measurer.library() &&
                       previous.workspace_bytes == plan.request.products.workspace_bytes;
    if (holds) table_ = previous;
    table_.card = measurer.card();
    table_.library = measurer.library();
    table_.workspace_bytes = plan.request.products.workspace_bytes;
  }

  TuningTable run() && {
    bool complete = true;
    for (const ProgramPlan& program : plan_.programs) {
      if (!measure_bucket(program, program.bucket, limits_.largest_seconds)) complete = false;
    }
    if (complete) return std::move(table_);
    for (const ProgramPlan& program : plan_.programs) {
      for (const size_t i : tuning_order(program.ladder.size())) {
        measure_bucket(program, program.ladder[i], limits_.seconds);
      }
    }
    return std::move(table_);
  }

 private:
  double elapsed() const { return measurer_.seconds() - begin_; }

  // Measures those matrix products of one bucket (sizes of a batch) that are missing in the table.
  // Returns true if none was missing.
  bool measure_bucket(const ProgramPlan& program, const Bucket& bucket, double until) {
    bool had_all = true;
    for (const auto& [key, product] : list_matmuls(program, bucket, plan_.request)) {
      if (table_.find(key) != nullptr) continue;
      had_all = false;
      if (elapsed() >= until) continue;
      if (const std::optional<TunedProduct> best = choose(product.matmul)) table_.products[key] = *best;
    }
    return had_all;
  }

  // An algorithm and its measured times, one for each round of measurements.
  struct Timed {
    TunedProduct algorithm;
    std::vector<double> ms = {};
  };

  static double median(std::vector<double> ms) {
    const auto middle = ms.begin() + std::ssize(ms) / 2;
    std::nth_element(ms.begin(), middle, ms.end());
    return *middle;
  }

  // Measures every algorithm of the list once, and removes those that the library refuses. Keeps the order.
  void measure_round(const PlannedMatmul& product, std::vector<Timed>& list) {
    std::erase_if(list, [&](Timed& timed) {
      const std::optional<double> ms = measurer_.measure(product, timed.algorithm);
      if (ms) timed.ms.push_back(*ms);
      return !ms;
    });
  }

  void warm_up(const PlannedMatmul& product, const TunedProduct& algorithm) {
    constexpr int kMost = 1000;
    const double begin = measurer_.seconds();
    for (int i = 0; i < kMost && measurer_.seconds() - begin < limits_.warm_up_seconds; ++i) {
      if (!measurer_.measure(product, algorithm)) return;
    }
  }

  bool saves_enough(const Timed& other, const Timed& first) const {
    return median(other.ms) <= (1.0 - limits_.least_gain) * median(first.ms);
  }

  // Returns the fastest algorithm. Returns nothing if the library refuses to run its own first
  // proposal, with whose time the others are compared.
  std::optional<TunedProduct> choose(const PlannedMatmul& product) {
    std::vector<Timed> list;
    for (TunedProduct& candidate : measurer_.candidates(product, limits_.candidates))
      list.push_back({.algorithm = std::move(candidate)});
    if (list.empty()) return std::nullopt;
    const TunedProduct first = list.front().algorithm;
    if (!std::exchange(is_warm_, true)) warm_up(product, first);
    measure_round(product, list);
    const auto num_candidates = static_cast<int>(list.size());
    if (!list.empty()) leave_near(list);
    for (int round = 1; round < limits_.rounds; ++round) measure_round(product, list);
    if (list.empty() || !(list.front().algorithm == first)) return std::nullopt;
    const auto [chosen, first_ms] = chosen_of(product, list);
    TunedProduct tuned = chosen.algorithm;
    tuned.ms = median(chosen.ms);
    tuned.first_ms = first_ms;
    tuned.num_candidates = num_candidates;
    return tuned;
  }

  // Returns the algorithm to use and the milliseconds of the library's first choice, which is the first of the list.
  std::pair<Timed, double> chosen_of(const PlannedMatmul& product, const std::vector<Timed>& list) {
    const Timed& first = list.front();
    const Timed& best = *std::min_element(
        list.begin(), list.end(), [](const Timed& a, const Timed& b) { return median(a.ms) < median(b.ms); });
    if (!saves_enough(best, first)) return {first, median(first.ms)};
    std::vector<Timed> two{{.algorithm = first.algorithm}, {.algorithm = best.algorithm}};
    for (int round = 0; round < limits_.duel_rounds; ++round) measure_round(product, two);
    if (two.size() < 2) return {first, median(first.ms)};
    return {saves_enough(two[1], two[0]) ? two[1] : two[0], median(two[0].ms)};
  }

  // Removes the algorithms that were much slower than the fastest one in the first round. The library's first choice
  // always stays.
  void leave_near(std::vector<Timed>& list) const {
    double least = list.front().ms.front();
    for (const Timed& timed : list) least = std::min(least, timed.ms.front());
    const auto is_far = [&](const Timed& timed) { return timed.ms.front() > limits_.near * least; };
    list.erase(std::remove_if(list.begin() + 1, list.end(), is_far), list.end());
  }

  const Plan& plan_;
  ProductMeasurer& measurer_;
  TuningLimits limits_;
  double begin_;
  bool is_warm_ = false;
  TuningTable table_;
};

}  // namespace

std::vector<size_t> tuning_order(size_t num_buckets) {
  std::vector<size_t> order;
  std::vector<bool> taken(num_buckets, false);
  for (const size_t stride : {8, 4, 2, 1}) {
    for (size_t down = 0; down < num_buckets; down += stride) {
      const size_t i = num_buckets - 1 - down;
      if (taken[i]) continue;
      taken[i] = true;
      order.push_back(i);
    }
  }
  return order;
}

TuningTable tune_products(const Plan& plan, ProductMeasurer& measurer, const TuningLimits& limits) {
  return Tuner(plan, measurer, limits).run();
}

DType product_type(const PlanRequest& request) {
  return request.precision.activation_dtype.value_or(request.precision.dtype);
}

int64_t ceiling_product_size(int64_t bytes, int64_t scratch_bytes, DType dtype, int64_t most) {
  const int64_t room = (bytes - scratch_bytes) / 3 / dtype_bytes(dtype);
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(std::max<int64_t>(room, 0))));
  const int64_t n = std::min(most, side / 128 * 128);
  return n >= 512 ? n : 0;
}

void fill_with_noise(std::span<std::byte> bytes, DType dtype) {
  const View view{bytes.data(), dtype};
  const int64_t count = std::ssize(bytes) / dtype_bytes(dtype);
  uint64_t state = 0x9E3779B97F4A7C15u;
  for (int64_t i = 0; i < count; ++i) {
    // xorshift64 (Marsaglia 2003), which is random enough for operands.
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    view.store(i, static_cast<double>(state >> 11) * 0x1p-52 - 1.0);
  }
}

}  // namespace plimsoll
