#include "exec/tuning.h"

#include <algorithm>

namespace plimsoll {
namespace {

class Tuner {
 public:
  Tuner(const Plan& plan, ProductMeasurer& measurer, const TuningLimits& limits)
      : plan_(plan), measurer_(measurer), limits_(limits), begin_(measurer.seconds()) {
    const TuningTable& given = plan.request.tuning;
    const bool holds = given.card == measurer.card() && given.library == measurer.library() &&
                       given.workspace_bytes == measurer.workspace_bytes();
    if (holds) table_ = given;
    table_.card = measurer.card();
    table_.library = measurer.library();
    table_.workspace_bytes = measurer.workspace_bytes();
  }

  TuningTable run() && {
    bool complete = true;
    for (const std::optional<ProgramPlan>* program : {&plan_.train, &plan_.evaluate}) {
      if (*program && !measure_bucket(**program, (*program)->bucket, limits_.largest_seconds))
        complete = false;
    }
    if (complete) return std::move(table_);
    for (const std::optional<ProgramPlan>* program : {&plan_.train, &plan_.evaluate}) {
      if (!*program) continue;
      for (const size_t i : tuning_order((*program)->ladder.size())) {
        measure_bucket(**program, (*program)->ladder[i], limits_.seconds);
      }
    }
    return std::move(table_);
  }

 private:
  double elapsed() const { return measurer_.seconds() - begin_; }

  // Whether the table had all of the bucket's products before.
  bool measure_bucket(const ProgramPlan& program, const Bucket& bucket, double until) {
    bool had_all = true;
    for (const auto& [key, product] : products_of(program, bucket, plan_.request)) {
      if (table_.find(key) != nullptr) continue;
      had_all = false;
      if (elapsed() >= until) continue;
      if (const std::optional<TunedProduct> best = choose(product.first)) table_.products[key] = *best;
    }
    return had_all;
  }

  std::optional<TunedProduct> choose(const PlannedProduct& product) {
    std::optional<TunedProduct> best;
    double first_ms = 0;
    int measured = 0;
    for (TunedProduct& candidate : measurer_.candidates(product, limits_.candidates)) {
      const std::optional<double> ms = measurer_.measure(product, candidate);
      // Without a time for the first choice there is nothing to compare with.
      if (!ms && !best) return std::nullopt;
      if (!ms) continue;
      candidate.ms = *ms;
      if (measured++ == 0) first_ms = *ms;
      const bool is_first = measured == 1;
      const bool beats_first = *ms <= (1.0 - limits_.least_gain) * first_ms;
      if (is_first || (beats_first && *ms < best->ms)) best = std::move(candidate);
    }
    if (!best) return std::nullopt;
    best->first_ms = first_ms;
    best->num_candidates = measured;
    return best;
  }

  const Plan& plan_;
  ProductMeasurer& measurer_;
  TuningLimits limits_;
  double begin_;
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

}  // namespace plimsoll
