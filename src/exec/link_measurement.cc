#include "exec/link_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

constexpr int64_t kLeastRuns = 3;
constexpr int64_t kLeastRunsForSpread = 8;
constexpr int64_t kMostRuns = 2000;
constexpr double kWantedError = 0.02;
constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

// Returns the number of elements for a size in bytes, rounded so that the part of every rank is a multiple of 16 bytes.
int64_t elements_of(int64_t bytes, int num_ranks) {
  constexpr int64_t kVector = 4;
  return std::max<int64_t>(1, bytes / kFloatBytes / kVector / num_ranks) * kVector * num_ranks;
}

// Returns the value of an element before an operation. It is a small integer, so that sums over up to 2^17 ranks are below 2^24 and exact
// in fp32.
float value_before(int rank, int64_t element) {
  return static_cast<float>((element * 7 + rank * int64_t{13}) % 97);
}

// Returns the range of elements that are defined on this rank after the operation. A reduce_scatter leaves other ranks' parts undefined.
std::pair<int64_t, int64_t> defined_elements(Collective collective, int rank, int num_ranks, int64_t count) {
  if (collective != Collective::kReduceScatter) return {0, count};
  const int64_t part = count / num_ranks;
  return {rank * part, (rank + 1) * part};
}

float value_after(Collective collective, int num_ranks, int64_t count, int64_t element) {
  if (collective == Collective::kBroadcast) return value_before(0, element);
  if (collective == Collective::kAllGather)
    return value_before(static_cast<int>(element / (count / num_ranks)), element);
  float sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank) sum += value_before(rank, element);
  return sum;
}

class LinkBench {
 public:
  LinkBench(LinkExchanger& exchanger, Communicator& ranks, const LinkBenchLimits& limits)
      : exchanger_(exchanger), ranks_(ranks), limits_(limits) {}

  LinkCurve curve(Collective collective, const std::function<void(const std::string&)>& progress) {
    LinkCurve curve;
    for (const int64_t bytes : measured_sizes(limits_)) {
      const int64_t count = elements_of(bytes, ranks_.size());
      progress(fmt::format("{} of {} bytes through {}", collective_name(collective), bytes,
                           describe_link_exchange(exchanger_.exchange())));
      require_right_result(collective, count);
      const LinkPoint point = measure(collective, count);
      // Two small sizes may round to the same number of elements; then only the first one is kept.
      if (curve.empty() || point.bytes > curve.back().bytes) curve.push_back(point);
      if (kLeastRuns * point.median_ms > 1e3 * limits_.seconds_per_size) break;
    }
    return curve;
  }

 private:
  // Runs the operation once on numbers whose result is known exactly. The first run also sets up connections.
  void require_right_result(Collective collective, int64_t count) {
    values_.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) values_[static_cast<size_t>(i)] = value_before(ranks_.rank(), i);
    exchanger_.write(values_);
    exchanger_.run(collective, count);
    exchanger_.read(values_);
    const auto [begin, end] = defined_elements(collective, ranks_.rank(), ranks_.size(), count);
    for (int64_t i = begin; i < end; ++i) {
      const float found = values_[static_cast<size_t>(i)];
      const float wanted = value_after(collective, ranks_.size(), count, i);
      if (found == wanted) continue;
      throw_error(ErrorCode::kDevice,
                  "{} of {} numbers through {} computes a wrong result: number {} on rank {} of {} is {}, "
                  "but the exact result is {}. The measurement stops. Check the memory, the links "
                  "and their driver before you train on this machine",
                  collective_name(collective), count, describe_link_exchange(exchanger_.exchange()), i,
                  ranks_.rank(), ranks_.size(), found, wanted);
    }
    // The measured runs use zeros, because other numbers would overflow: each run sums the results of the previous one.
    std::ranges::fill(values_, 0.0F);
    exchanger_.write(values_);
  }

  LinkPoint measure(Collective collective, int64_t count) {
    const Clock::time_point start = Clock::now();
    std::vector<double> times;
    int64_t next = kLeastRuns;
    while (true) {
      add_times(collective, count, next, times);
      const LinkPoint point = summarize_times(count * kFloatBytes, times);
      const double left_ms = 1e3 * limits_.seconds_per_size - elapsed_of_first_rank(start);
      if (left_ms <= 0 || point.num_runs >= kMostRuns || is_spread_known(point)) return point;
      // All ranks must compute the same number of further runs. They do, because add_times() gives all of them the same times, and left_ms
      // is computed from the clock of the first rank.
      const auto affordable = static_cast<int64_t>(left_ms / point.median_ms);
      if (affordable < 1) return point;
      next = std::min({affordable, point.num_runs, kMostRuns - point.num_runs});
    }
  }

  // Runs the operation `num_runs` times, and appends to `times` for each run the time of the slowest rank.
  void add_times(Collective collective, int64_t count, int64_t num_runs, std::vector<double>& times) {
    std::vector<double> own(static_cast<size_t>(num_runs));
    for (double& milliseconds : own) milliseconds = exchanger_.run_ms(collective, count);
    std::vector<double> all(own.size() * static_cast<size_t>(ranks_.size()));
    ranks_.all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
    for (size_t run = 0; run < own.size(); ++run) {
      double slowest = 0;
      for (size_t at = run; at < all.size(); at += own.size()) slowest = std::max(slowest, all[at]);
      times.push_back(slowest);
    }
  }

  double elapsed_of_first_rank(Clock::time_point start) {
    double elapsed = ms_since(start);
    ranks_.broadcast(std::as_writable_bytes(std::span(&elapsed, 1)), 0);
    return elapsed;
  }

  LinkExchanger& exchanger_;
  Communicator& ranks_;
  const LinkBenchLimits& limits_;
  std::vector<float> values_;
};

class GlooExchanger final : public LinkExchanger {
 public:
  GlooExchanger(Communicator& ranks, int64_t buffer_elements)
      : ranks_(ranks), buffer_(static_cast<size_t>(buffer_elements)) {}

  LinkExchange exchange() const override { return LinkExchange::kGloo; }
  bool has(Collective) const override { return true; }
  void write(std::span<const float> values) override { std::ranges::copy(values, buffer_.begin()); }
  void read(std::span<float> values) override { std::copy_n(buffer_.begin(), values.size(), values.begin()); }
  double run_ms(Collective collective, int64_t count) override {
    ranks_.barrier();
    const Clock::time_point start = Clock::now();
    run(collective, count);
    return ms_since(start);
  }
  void run(Collective collective, int64_t count) override {
    const std::vector<int64_t> parts(static_cast<size_t>(ranks_.size()), count / ranks_.size());
    std::vector<int64_t> part_bytes = parts;
    for (int64_t& bytes : part_bytes) bytes *= kFloatBytes;
    const View data{buffer_.data(), DType::kF32};
    const auto bytes = std::as_writable_bytes(std::span(buffer_).first(static_cast<size_t>(count)));
    switch (collective) {
      case Collective::kAllReduce:
        ranks_.all_reduce(data, count);
        break;
      case Collective::kReduceScatter:
        ranks_.reduce_scatter(data, parts);
        break;
      case Collective::kAllGather:
        ranks_.all_gather_parts(bytes.data(), part_bytes);
        break;
      case Collective::kBroadcast:
        ranks_.broadcast(bytes, 0);
        break;
    }
  }

 private:
  Communicator& ranks_;
  std::vector<float> buffer_;
};

}  // namespace

std::unique_ptr<LinkExchanger> gloo_exchanger(Communicator& ranks, int64_t buffer_elements) {
  return std::make_unique<GlooExchanger>(ranks, buffer_elements);
}

std::vector<int64_t> measured_sizes(const LinkBenchLimits& limits) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = limits.smallest_bytes; bytes < limits.largest_bytes; bytes *= 4)
    sizes.push_back(bytes);
  sizes.push_back(limits.largest_bytes);
  return sizes;
}

int64_t link_buffer_elements(const LinkBenchLimits& limits, int num_ranks) {
  return elements_of(limits.largest_bytes, num_ranks);
}

LinkPoint summarize_times(int64_t bytes, std::vector<double> milliseconds) {
  PLIMSOLL_CHECK(!milliseconds.empty(),
                 "cannot summarize the times of exchanging {} bytes: none was measured", bytes);
  std::ranges::sort(milliseconds);
  // Returns a quantile of the times, linearly interpolated between two of them.
  const auto quantile = [&](double share) {
    const double at = share * static_cast<double>(milliseconds.size() - 1);
    const auto below = static_cast<size_t>(at);
    const size_t above = std::min(below + 1, milliseconds.size() - 1);
    return std::lerp(milliseconds[below], milliseconds[above], at - std::floor(at));
  };
  const double median = quantile(0.5);
  return {.bytes = bytes,
          .median_ms = median,
          .spread = median > 0 ? (quantile(0.75) - quantile(0.25)) / (2 * median) : 0,
          .num_runs = std::ssize(milliseconds)};
}

bool is_spread_known(const LinkPoint& point) {
  return point.num_runs >= kLeastRunsForSpread &&
         point.spread / std::sqrt(static_cast<double>(point.num_runs)) <= kWantedError;
}

MeasuredLinks measure_links(LinkExchanger& exchanger, Communicator& ranks, const LinkBenchLimits& limits,
                            const std::function<void(const std::string&)>& progress) {
  MeasuredLinks links{.exchange = exchanger.exchange(), .num_ranks = ranks.size()};
  LinkBench bench(exchanger, ranks, limits);
  for (const Collective collective : kCollectives) {
    if (exchanger.has(collective)) links.curves[collective] = bench.curve(collective, progress);
  }
  exchanger.disconnect();
  ranks.barrier();
  return links;
}

}  // namespace plimsoll
