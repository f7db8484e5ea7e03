#include "plan/search/fit.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/run_on_threads.h"
#include "plan/build/begun_graphs.h"
#include "plan/build/placer.h"
#include "plan/search/change.h"

namespace plimsoll {
namespace {

struct Shape {
  int64_t micro_batch = 1;
  int64_t accumulation = 1;
  int64_t longest = 1;
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Needs {
  int64_t bytes = 0;
  double ms_per_sample = 0;
};

Bucket full_bucket(int64_t sequences, int64_t longest) {
  return {.tokens = sequences * longest, .sequences = sequences, .longest = longest};
}

// The first part of graphs, for candidates whose graphs begin alike: with and without accumulation. What
// holds logits in chunks depends on the bucket and is begun each time. Thread-safe.
class SharedGraphs {
 public:
  PlanGraphs begun(const PlanRequest& request) {
    if (chunks_loss(request, request.train_bucket)) return begin_graphs(request);
    const std::lock_guard lock(mutex_);
    std::optional<PlanGraphs>& graphs = begun_[request.gradient_accumulation_steps > 1 ? 1 : 0];
    if (!graphs) graphs = begin_graphs(request);
    return *graphs;
  }

 private:
  std::mutex mutex_;
  std::array<std::optional<PlanGraphs>, 2> begun_;
};

// Plans of one candidate. Graphs are built once with and once without accumulation, and with and without
// chunks of logits.
class Planner {
 public:
  Planner(const FitCandidate& candidate, SharedGraphs& shared)
      : candidate_(candidate), shared_(shared), request_(candidate.request) {}

  // From graphs that were built before, for the first shape that they were asked for: what the search goes
  // by. States from the host come late in them, and activations leave the device that have room there: how
  // early and which depends on the shape, and where the limit has no room for it, it is not done.
  Needs placed(const Shape& shape) {
    set(shape);
    request_.early_states = request_.saved_in_room = false;
    const bool accumulates = shape.accumulation > 1;
    Graphs& graphs = graphs_[{accumulates, chunks_loss(request_, request_.train_bucket)}];
    const bool is_first = !graphs.placer;
    if (is_first) graphs.placer.emplace(request_, finish_graphs(request_, shared_.begun(request_)));
    const auto start = std::chrono::steady_clock::now();
    const Needs needs = needs_of(graphs.placer->place(sizes_of(request_)));
    if (is_first) graphs = {.placer = std::move(graphs.placer), .built_for = shape, .own_needs = needs};
    ++num_plans_;
    plan_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return needs;
  }

  // From the pipeline that a run goes through: what an answer stands on.
  Needs built(const Shape& shape) {
    set(shape);
    request_.early_states = candidate_.request.early_states;
    request_.saved_in_room = candidate_.request.saved_in_room;
    const auto it = graphs_.find({shape.accumulation > 1, chunks_loss(request_, request_.train_bucket)});
    const bool is_built = (!request_.offload_optimizer || !request_.early_states) &&
                          (!request_.offload_activations || !request_.saved_in_room);
    if (is_built && it != graphs_.end() && it->second.built_for == shape) return it->second.own_needs;
    return needs_of(plan_within_limit(request_, [this](const PlanRequest& request) {
      return finish_graphs(request, shared_.begun(request));
    }));
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
  struct Graphs {
    std::optional<Placer> placer = {};
    Shape built_for = {};
    Needs own_needs = {};  // of that shape
  };

  void set(const Shape& shape) {
    const PlanRequest& given = candidate_.request;
    request_.train_bucket = full_bucket(shape.micro_batch, shape.longest);
    request_.host = given.host;
    request_.host.data_bytes +=
        candidate_.host_bytes_per_token * (request_.train_bucket.tokens - given.train_bucket.tokens);
    request_.gradient_accumulation_steps = shape.accumulation;
    if (given.evaluate)
      request_.evaluate_bucket = full_bucket(given.evaluate_bucket.sequences, shape.longest);
  }

  static Needs needs_of(const Plan& plan) { return {plan.total_bytes(), ms_per_sample(plan)}; }

  const FitCandidate& candidate_;
  SharedGraphs& shared_;
  PlanRequest request_;  // the candidate's, of the shape that was last asked for
  std::map<std::pair<bool, bool>, Graphs> graphs_;
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
  const auto take = [&](size_t /*thread*/) {
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
  run_on_threads(std::min(static_cast<size_t>(num_threads), count), take);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

FitSearch search_fit(const std::vector<FitCandidate>& candidates, const FitQuestion& question) {
  PLIMSOLL_CHECK(question.effective_batch >= 1 && question.longest >= 1,
                 "a batch of {} sequences of {} tokens", question.effective_batch, question.longest);
  PLIMSOLL_CHECK(question.num_threads >= 1, "{} threads", question.num_threads);
  FitSearch search;
  std::deque<SharedGraphs> shared;
  std::deque<Planner> planners;
  std::vector<size_t> first_alike;  // of each of `shared`, a candidate
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto it = std::ranges::find_if(first_alike, [&](size_t first) {
      return begin_alike(candidates[first].request, candidates[i].request);
    });
    const auto group = static_cast<size_t>(it - first_alike.begin());
    if (it == first_alike.end()) {
      first_alike.push_back(i);
      shared.emplace_back();
    }
    planners.emplace_back(candidates[i], shared[group]);
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
