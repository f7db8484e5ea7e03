#include "plan/search/recompute_solver.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace plimsoll {
namespace {

// A partial solution: the options of the first blocks, the bytes that these blocks keep, and the recomputation time. It extends the partial
// solution `before`, which has one block fewer, by the option `option` of the next block.
struct State {
  int64_t kept_bytes = 0;
  double ms = 0;
  uint32_t before = 0;  // index of the partial solution for the previous blocks that this one extends
  uint32_t option = 0;
};

// Sorts partial solutions by kept bytes. Drops each one that keeps no less than another and is no faster.
void keep_pareto_front(std::vector<State>& states) {
  std::sort(states.begin(), states.end(), [](const State& a, const State& b) {
    return std::tie(a.kept_bytes, a.ms, a.before, a.option) <
           std::tie(b.kept_bytes, b.ms, b.before, b.option);
  });
  std::vector<State> unbeaten;
  for (const State& state : states) {
    if (unbeaten.empty() || state.ms < unbeaten.back().ms) unbeaten.push_back(state);
  }
  states = std::move(unbeaten);
}

// Extends partial solutions by one block, and returns those that fit. Most of those that are not Pareto-optimal are dropped: kept bytes are
// divided into kMostStates ranges, and a solution is dropped if it is no faster than one in a lower range. The result is a few times larger
// than the Pareto front. If none were dropped, it would be larger by a factor of the number of options per block.
std::vector<State> extended(const std::vector<State>& before, const RecomputeBlock& block, int64_t limit) {
  if (limit < 0) return {};
  const int64_t step = std::max<int64_t>(1, limit / static_cast<int64_t>(kMostStates));
  std::vector<double> fastest(static_cast<size_t>(limit / step) + 2, std::numeric_limits<double>::infinity());
  const auto for_each_that_fits = [&](const auto& take) {
    for (uint32_t s = 0; s < before.size(); ++s) {
      for (uint32_t o = 0; o < block.options.size(); ++o) {
        const RecomputeOption& option = block.options[o];
        if (before[s].kept_bytes + option.working_bytes + block.later_bytes > limit) continue;
        const State state{before[s].kept_bytes + option.kept_bytes, before[s].ms + option.ms, s, o};
        // Kept bytes above the limit are counted as the limit. They can exceed it although the check above succeeded: it counts the bytes
        // that are live in the backward pass of the block, which may be fewer than those that the block keeps.
        const auto at = static_cast<size_t>(std::clamp<int64_t>(state.kept_bytes, 0, limit) / step);
        take(state, at);
      }
    }
  };
  for_each_that_fits(
      [&](const State& state, size_t at) { fastest[at + 1] = std::min(fastest[at + 1], state.ms); });
  // After this, fastest[i] is the smallest time of all partial solutions whose kept bytes are in ranges below i.
  std::partial_sum(fastest.begin(), fastest.end(), fastest.begin(),
                   [](double a, double b) { return std::min(a, b); });
  std::vector<State> states;
  for_each_that_fits([&](const State& state, size_t at) {
    if (state.ms < fastest[at]) states.push_back(state);
  });
  return states;
}

// If several partial solutions have kept bytes in the same range, keeps only the last one, which is the fastest.
void thin_out(std::vector<State>& states, int64_t limit) {
  if (states.size() <= kMostStates) return;
  const int64_t grain = std::max<int64_t>(1, limit / static_cast<int64_t>(kMostStates));
  std::vector<State> thin;
  for (const State& state : states) {
    if (!thin.empty() && thin.back().kept_bytes / grain == state.kept_bytes / grain) {
      thin.back() = state;
    } else {
      thin.push_back(state);
    }
  }
  states = std::move(thin);
}

int64_t peak_of(std::span<const RecomputeBlock> blocks, std::span<const size_t> options, int64_t head_bytes) {
  int64_t kept = 0;
  int64_t peak = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const RecomputeOption& option = blocks[i].options[options[i]];
    peak = std::max(peak, kept + option.working_bytes + blocks[i].later_bytes);
    kept += option.kept_bytes;
  }
  return std::max(peak, kept + head_bytes);
}

}  // namespace

std::optional<RecomputeSolution> choose_options(std::span<const RecomputeBlock> blocks, int64_t head_bytes,
                                                int64_t limit) {
  std::vector<std::vector<State>> layers{{State{}}};
  for (const RecomputeBlock& block : blocks) {
    std::vector<State> next = extended(layers.back(), block, limit);
    keep_pareto_front(next);
    thin_out(next, limit);
    if (next.empty()) return std::nullopt;
    layers.push_back(std::move(next));
  }
  // Partial solutions are sorted from slow to fast, so the fastest one that leaves enough bytes for the head is the last that fits.
  const std::vector<State>& last = layers.back();
  const auto fits = [&](const State& state) { return state.kept_bytes + head_bytes <= limit; };
  const auto found = std::find_if(last.rbegin(), last.rend(), fits);
  if (found == last.rend()) return std::nullopt;
  RecomputeSolution solution{.options = std::vector<size_t>(blocks.size()), .ms = found->ms};
  State state = *found;
  for (size_t i = blocks.size(); i-- > 0;) {
    solution.options[i] = state.option;
    state = layers[i][state.before];
  }
  solution.peak_bytes = peak_of(blocks, solution.options, head_bytes);
  return solution;
}

std::vector<size_t> pareto_front(std::span<const RecomputeOption> options) {
  std::vector<size_t> order(options.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    return std::tuple(options[i].ms, options[i].kept_bytes, options[i].working_bytes, i);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<size_t> unbeaten;
  for (size_t i : order) {
    const bool is_beaten = std::any_of(unbeaten.begin(), unbeaten.end(), [&](size_t k) {
      return options[k].kept_bytes <= options[i].kept_bytes &&
             options[k].working_bytes <= options[i].working_bytes;
    });
    if (!is_beaten) unbeaten.push_back(i);
  }
  return unbeaten;
}

}  // namespace plimsoll
