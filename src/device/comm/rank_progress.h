// The position of a rank in its work: the part of the run, the operation in which it waits for other ranks, and when that wait
// began. If a rank stops without ending its process, the others would wait for it forever. This class therefore decides when a
// wait has taken too long. A table of the positions of all ranks then shows the user which rank keeps the others waiting.
//
// The threads that train update the position, and the thread that watches the other ranks (store_client.h) reads it. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

// The part of a run. In a training step all ranks do the same work at the same time, so that a long wait is a failure. In the
// other parts one rank may work alone for a long time, for example while it writes a checkpoint to a slow disk.
enum class RankPhase : uint8_t { kBegin, kStep, kEvaluation, kCheckpoint, kEnd };

struct RankPosition {
  RankPhase phase = RankPhase::kBegin;
  int64_t step =
      0;  // number of the current step in kStep, and of the previous step in kEvaluation and kCheckpoint
  bool waits = false;  // true while the rank waits for other ranks in the operation
  int peer = -1;       // the rank for which it waits, if known
  int64_t number = 0;  // number of the operation, counted from 1; 0 if it has none
  // name of the current operation, such as "barrier", or of the last one if the rank does not wait
  std::string operation = {};
  std::chrono::milliseconds time = std::chrono::milliseconds(
      0);  // time since the current operation began or, if the rank does not wait, since the last one ended
};

// Returns "step 12", "evaluation after step 12", "checkpoint of step 12", or "" at the beginning and the end of a run.
std::string phase_text(RankPhase phase, int64_t step);
// Returns a table that shows what each rank is doing (its position): a header line and one line per rank. A rank
// without a position did not answer. If there are too many ranks for the table, ranks that do not wait are shown
// first and the rest is cut off. `own_rank` is the rank that asked the others through the store of rank 0.
std::string position_table(const std::vector<std::optional<RankPosition>>& positions, int own_rank);

class RankProgress {
 public:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;
  using Now = std::function<Clock::time_point()>;

  // `now` returns the current time. Tests pass a simulated clock.
  explicit RankProgress(Now now = &Clock::now);

  // The kinds of waits. kAllRanks: an operation whose end shows that all ranks have reached it. kSomeRanks: an operation whose end
  // does not show this, such as a broadcast. kGpu: the host waits for the GPU of this rank, which in turn waits for other ranks; this is
  // not counted as an operation and has no number.
  enum class Kind : uint8_t { kAllRanks, kSomeRanks, kGpu };

  // An object that exists while the rank waits for other ranks in an operation.
  class Wait {
   public:
    Wait(RankProgress& progress, std::string operation, Kind kind);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    RankProgress& progress_;
    Kind kind_;
  };

  // Describes the current wait of this rank after it has exceeded its time limit.
  struct Overdue {
    RankPosition position;
    milliseconds limit = milliseconds(0);
    // True if a rank may legitimately work alone for longer than the limit. The wait is then too
    // long only if some rank does not answer when it is asked what it is doing.
    bool needs_silence = false;
    uint64_t wait = 0;  // number of this wait, the argument of is_in()
  };

  // Sets the time limit of all waits; begin() can set a shorter one for training steps. Before this
  // call, waits are not limited.
  void set_longest_wait(milliseconds limit);
  // Begins a part of the run. `limit` is the time limit of waits in a training step. In the part of the run before the step, one rank may
  // have worked alone for a long time. Therefore, until an operation of the step has shown that all ranks have ended that earlier part, a
  // wait that exceeds the limit is a failure only if some rank does not answer.
  void begin(RankPhase phase, int64_t step, std::optional<milliseconds> limit = std::nullopt);

  RankPosition position() const;
  // Returns phase_text() of the current part of the run, followed by ": " if it is not empty.
  std::string prefix() const;

  // Records the current time. Must be called at least four times per second, in one thread. If the process was stopped and continued,
  // the time in between does not count as waiting time.
  void note_time();
  // Returns the current wait if it has exceeded its time limit.
  std::optional<Overdue> overdue() const;
  // Returns true if the rank is still in the wait that has this number (Overdue::wait).
  bool is_in(uint64_t wait) const;

 private:
  // Returns the time since `begin` in which this process ran. Requires: mutex_ is locked.
  milliseconds time_since(Clock::time_point begin, Clock::duration stopped_before) const;

  const Now now_;
  // protects all members below, which the training threads and the watching thread use
  mutable std::mutex mutex_;
  std::optional<milliseconds> longest_wait_;
  RankPhase phase_ = RankPhase::kBegin;
  int64_t step_ = 0;
  std::optional<milliseconds> step_limit_;
  bool all_arrived_ = false;  // true if all ranks have ended the part of the run before the current step
  int waits_ = 0;             // number of Wait objects that exist now, which may be nested
  uint64_t num_waits_ = 0;
  int64_t num_operations_ = 0;  // number of operations so far; waits for the GPU do not count
  int64_t number_ = 0;          // number of the current or last operation; 0 if it has none
  std::string operation_;
  Clock::time_point changed_;               // when the current operation began or the last one ended
  Clock::duration stopped_at_change_ = {};  // value of stopped_ at the time changed_
  Clock::duration stopped_ = {};            // total time in which this process was stopped
  std::optional<Clock::time_point> noted_;  // time of the last call of note_time()
};

}  // namespace plimsoll
