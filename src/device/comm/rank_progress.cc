#include "device/comm/rank_progress.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace plimsoll {
namespace {

// A longer time between two calls of note_time() means that the process was stopped in between.
constexpr std::chrono::milliseconds kLongestPause{1000};
constexpr size_t kMostRows = 32;

std::string duration_text(std::chrono::milliseconds time) {
  return fmt::format("{:.1f} s", static_cast<double>(time.count()) / 1000.0);
}

// A row of the table that shows what each rank does. Its cells are the rank, part of the run, state, time and operation.
using Row = std::array<std::string, 5>;

Row row_of(int rank, const RankPosition& position) {
  const std::string part = phase_text(position.phase, position.step);
  std::string state = "works alone";
  if (position.waits) state = position.peer < 0 ? "waits" : fmt::format("waits for rank {}", position.peer);
  std::string operation = "before the first operation";
  if (!position.operation.empty()) operation = (position.waits ? "" : "after ") + position.operation;
  if (position.number > 0) operation += fmt::format(" (number {})", position.number);
  return {std::to_string(rank), part.empty() ? "outside of steps" : part, state, duration_text(position.time),
          operation};
}

}  // namespace

std::string phase_text(RankPhase phase, int64_t step) {
  switch (phase) {
    case RankPhase::kStep:
      return fmt::format("step {}", step);
    case RankPhase::kEvaluation:
      return fmt::format("evaluation after step {}", step);
    case RankPhase::kCheckpoint:
      return fmt::format("checkpoint of step {}", step);
    case RankPhase::kBegin:
    case RankPhase::kEnd:
      break;
  }
  return {};
}

std::string position_table(const std::vector<std::optional<RankPosition>>& positions, int own_rank) {
  std::vector<int> ranks(positions.size());
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
  const auto waits = [&](int rank) {
    const std::optional<RankPosition>& position = positions[static_cast<size_t>(rank)];
    return position && position->waits;
  };
  if (ranks.size() > kMostRows)
    std::ranges::stable_sort(ranks, [&](int a, int b) { return !waits(a) && waits(b); });
  const bool knows_others = own_rank == 0 || positions.front();
  std::vector<Row> rows{{"rank", "part of the run", "state", "for", "operation"}};
  for (const int rank : ranks) {
    if (rows.size() > kMostRows) break;
    const std::optional<RankPosition>& position = positions[static_cast<size_t>(rank)];
    if (position) {
      rows.push_back(row_of(rank, *position));
    } else if (rank == 0 || knows_others) {
      rows.push_back({std::to_string(rank), "not known", "does not answer", "",
                      "its process is stopped, or its host cannot be reached"});
    } else {
      rows.push_back({std::to_string(rank), "not known", "not known", "",
                      "rank 0, which would forward the question, does not answer"});
    }
  }
  std::array<size_t, std::tuple_size_v<Row>> widths{};
  for (size_t column = 0; column < widths.size(); ++column) {
    for (const Row& row : rows) widths[column] = std::max(widths[column], row[column].size());
  }
  std::string table;
  for (const Row& row : rows) {
    table += fmt::format("{}  {:>{}}  {:<{}}  {:<{}}  {:>{}}  {}", table.empty() ? "" : "\n", row[0],
                         widths[0], row[1], widths[1], row[2], widths[2], row[3], widths[3], row[4]);
  }
  if (const size_t more = positions.size() + 1 - rows.size(); more > 0)
    table += fmt::format("\n  and {} more", more);
  return table;
}

RankProgress::RankProgress(Now now) : now_(std::move(now)), changed_(now_()) {}

RankProgress::Wait::Wait(RankProgress& progress, std::string operation, Kind kind)
    : progress_(progress), kind_(kind) {
  const std::lock_guard lock(progress_.mutex_);
  if (progress_.waits_++ > 0) return;
  ++progress_.num_waits_;
  progress_.number_ = kind == Kind::kGpu ? 0 : ++progress_.num_operations_;
  progress_.operation_ = std::move(operation);
  progress_.changed_ = progress_.now_();
  progress_.stopped_at_change_ = progress_.stopped_;
}

RankProgress::Wait::~Wait() {
  const std::lock_guard lock(progress_.mutex_);
  if (--progress_.waits_ > 0) return;
  progress_.changed_ = progress_.now_();
  progress_.stopped_at_change_ = progress_.stopped_;
  if (kind_ == Kind::kAllRanks && progress_.phase_ == RankPhase::kStep) progress_.all_arrived_ = true;
}

void RankProgress::set_longest_wait(milliseconds limit) {
  const std::lock_guard lock(mutex_);
  longest_wait_ = limit;
}

void RankProgress::begin(RankPhase phase, int64_t step, std::optional<milliseconds> limit) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
  step_ = step;
  if (phase == RankPhase::kStep) {
    step_limit_ = limit;
  } else {
    all_arrived_ = false;
  }
}

RankPosition RankProgress::position() const {
  const std::lock_guard lock(mutex_);
  return {.phase = phase_,
          .step = step_,
          .waits = waits_ > 0,
          .number = number_,
          .operation = operation_,
          .time = time_since(changed_, stopped_at_change_)};
}

std::string RankProgress::prefix() const {
  const std::lock_guard lock(mutex_);
  const std::string text = phase_text(phase_, step_);
  return text.empty() ? text : text + ": ";
}

void RankProgress::note_time() {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = now_();
  if (noted_ && now - *noted_ > kLongestPause) stopped_ += now - *noted_;
  noted_ = now;
}

std::optional<RankProgress::Overdue> RankProgress::overdue() const {
  const std::lock_guard lock(mutex_);
  if (waits_ == 0 || !longest_wait_) return std::nullopt;
  const milliseconds short_limit = std::min(*longest_wait_, step_limit_.value_or(*longest_wait_));
  const milliseconds time = time_since(changed_, stopped_at_change_);
  if (time < short_limit) return std::nullopt;
  const bool needs_silence = !(phase_ == RankPhase::kStep && all_arrived_) && time < *longest_wait_;
  const milliseconds limit = time < *longest_wait_ ? short_limit : *longest_wait_;
  return Overdue{.position = {.phase = phase_,
                              .step = step_,
                              .waits = true,
                              .number = number_,
                              .operation = operation_,
                              .time = time},
                 .limit = limit,
                 .needs_silence = needs_silence,
                 .wait = num_waits_};
}

bool RankProgress::is_in(uint64_t wait) const {
  const std::lock_guard lock(mutex_);
  return waits_ > 0 && num_waits_ == wait;
}

std::chrono::milliseconds RankProgress::time_since(Clock::time_point begin,
                                                   Clock::duration stopped_before) const {
  const Clock::duration time = now_() - begin - (stopped_ - stopped_before);
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(time));
}

}  // namespace plimsoll
