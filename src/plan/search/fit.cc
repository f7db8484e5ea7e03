#include "plan/search/fit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "plan/search/change.h"

namespace plimsoll {
namespace {

struct Shape {
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  int64_t longest = 1;
};

struct Needs {
  int64_t bytes = 0;
  double ms_per_sample = 0;
};

Bucket full_bucket(int64_t sequences, int64_t longest) {
  return {.tokens = sequences * longest, .sequences = sequences, .longest = longest};
}

// Plans of one candidate. Graphs are built once with and once without accumulation, and with and without
// chunks of logits.
class Planner {
 public:
  explicit Planner(const FitCandidate& candidate) : candidate_(candidate) {}

  PlanRequest request_of(const Shape& shape) const {
    PlanRequest request = candidate_.request;
    request.train_bucket = full_bucket(shape.micro_batch, shape.longest);
    request.host.data_bytes += candidate_.host_bytes_per_token *
                               (request.train_bucket.tokens - candidate_.request.train_bucket.tokens);
    request.gradient_accumulation_steps = shape.accumulation;
    if (request.evaluate)
      request.evaluate_bucket = full_bucket(request.evaluate_bucket.sequences, shape.longest);
    return request;
  }

  // From graphs that were built before: what the search goes by.
  Needs placed(const Shape& shape) {
    const PlanRequest request = request_of(shape);
    std::optional<PlanGraphs>& graphs = graphs_[{shape.accumulation > 1, chunks_loss(request)}];
    if (!graphs) graphs = build_graphs(request);
    const auto start = std::chrono::steady_clock::now();
    Plan plan = place_plan(request, *std::exchange(graphs, std::nullopt));
    const Needs needs{plan.total_bytes(), ms_per_sample(plan)};
    graphs = graphs_of(std::move(plan));
    ++num_plans_;
    plan_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return needs;
  }

  // From the pipeline that a run goes through: what an answer stands on.
  Needs built(const Shape& shape) const {
    const Plan plan = build_plan(request_of(shape));
    return {plan.total_bytes(), ms_per_sample(plan)};
  }

  bool fits(const Needs& needs) const {
    return !candidate_.request.memory_limit_bytes || needs.bytes <= *candidate_.request.memory_limit_bytes;
  }

  // The largest value from `low` to `high` whose shape fits, or low - 1: bisection over placings, then
  // downwards over plans until one is confirmed, since an order of ops chosen for that very bucket may need a
  // little more.
  template <typename MakeShape>
  int64_t largest(int64_t low, int64_t high, MakeShape make_shape) {
    int64_t good = low - 1;
    int64_t bad = high + 1;
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      (fits(placed(make_shape(middle))) ? good : bad) = middle;
    }
    while (good >= low && !fits(built(make_shape(good)))) good -= std::max<int64_t>(1, good / 512);
    return good;
  }

  int64_t num_plans() const { return num_plans_; }
  double plan_ms() const { return plan_ms_; }

 private:
  const FitCandidate& candidate_;
  std::map<std::pair<bool, bool>, std::optional<PlanGraphs>> graphs_;
  int64_t num_plans_ = 0;
  double plan_ms_ = 0;
};

// The fastest micro-batch of the effective batch that fits.
void choose_split(Planner& planner, const FitQuestion& question, FitAnswer& answer) {
  std::vector<std::pair<double, Shape>> splits;
  for (int64_t micro = question.effective_batch; micro >= 1; --micro) {
    if (question.effective_batch % micro != 0) continue;
    const Shape shape{micro, question.effective_batch / micro, question.longest};
    const Needs needs = planner.placed(shape);
    if (answer.smallest_bytes == 0 || needs.bytes < answer.smallest_bytes)
      answer.smallest_bytes = needs.bytes;
    if (planner.fits(needs)) splits.emplace_back(needs.ms_per_sample, shape);
  }
  std::stable_sort(splits.begin(), splits.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [ms, shape] : splits) {
    const Needs needs = planner.built(shape);
    if (!planner.fits(needs)) continue;
    answer.micro_batch = shape.micro_batch;
    answer.accumulation = shape.accumulation;
    answer.total_bytes = needs.bytes;
    answer.samples_per_s = needs.ms_per_sample > 0 ? 1e3 / needs.ms_per_sample : 0;
    return;
  }
}

void choose_limits(Planner& planner, const FitQuestion& question, FitAnswer& answer) {
  answer.largest_batch = planner.largest(1, question.largest_batch, [&](int64_t batch) {
    return Shape{batch, 1, question.longest};
  });
  if (answer.micro_batch == 0) return;
  answer.longest_sequence = planner.largest(
      question.longest, std::max(question.longest, question.most_tokens), [&](int64_t longest) {
        return Shape{answer.micro_batch, answer.accumulation, longest};
      });
}

// Calls work(i) for i from 0 to count - 1 on so many threads, this one among them. What a call throws is
// thrown here once all have ended.
template <typename Work>
void for_each_of(size_t count, int num_threads, const Work& work) {
  std::atomic<size_t> next{0};
  std::exception_ptr thrown;
  std::mutex mutex;
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        thrown = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < std::min(static_cast<size_t>(num_threads), count); ++i) threads.emplace_back(take);
  take();
  threads.clear();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

FitSearch search_fit(const std::vector<FitCandidate>& candidates, const FitQuestion& question) {
  PLIMSOLL_CHECK(question.effective_batch >= 1 && question.longest >= 1,
                 "a batch of {} sequences of {} tokens", question.effective_batch, question.longest);
  PLIMSOLL_CHECK(question.num_threads >= 1, "{} threads", question.num_threads);
  FitSearch search;
  std::deque<Planner> planners;
  for (size_t i = 0; i < candidates.size(); ++i) {
    planners.emplace_back(candidates[i]);
    search.answers.push_back({.candidate = i});
  }
  std::vector<std::string> reasons(candidates.size());
  for_each_of(candidates.size(), question.num_threads, [&](size_t i) {
    try {
      choose_split(planners[i], question, search.answers[i]);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage) throw;
      reasons[i] = error.what();
    }
  });
  for (size_t i = 0; i < reasons.size(); ++i) {
    if (!reasons[i].empty()) search.refused.push_back({i, reasons[i]});
  }
  std::erase_if(search.answers, [&](const FitAnswer& answer) { return !reasons[answer.candidate].empty(); });
  std::stable_sort(search.answers.begin(), search.answers.end(), [](const FitAnswer& a, const FitAnswer& b) {
    if ((a.micro_batch > 0) != (b.micro_batch > 0)) return a.micro_batch > 0;
    return a.micro_batch > 0 ? a.samples_per_s > b.samples_per_s : a.smallest_bytes < b.smallest_bytes;
  });
  for_each_of(std::min(search.answers.size(), question.num_detailed), question.num_threads, [&](size_t i) {
    choose_limits(planners[search.answers[i].candidate], question, search.answers[i]);
  });
  double busy_ms = 0;
  for (const Planner& planner : planners) {
    search.num_plans += planner.num_plans();
    busy_ms += planner.plan_ms();
  }
  // Threads have between them as many milliseconds as that for each of the wall clock's.
  const size_t most = std::max<size_t>(1, candidates.size());
  search.plan_ms = busy_ms / static_cast<double>(std::min(static_cast<size_t>(question.num_threads), most));
  return search;
}

}  // namespace plimsoll
