// Tests the errors of a rank if another rank is missing, ends or is killed. Ranks that are killed are processes; the others are threads.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "device/comm/communicator.h"
#include "device/comm/testing/rank_threads.h"
#include "plimsoll/free_port.h"

namespace plimsoll {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Connects these ranks, each in its own thread, and returns the error of each rank.
std::vector<ErrorOfCall> errors_of_connecting(const std::vector<RankPlace>& places, milliseconds limit) {
  std::vector<ErrorOfCall> errors(places.size());
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < places.size(); ++i) {
    threads.emplace_back([&, i] {
      errors[i] =
          error_of([&] { connect_ranks(places[i], {.connect_timeout = limit, .operation_timeout = limit}); });
    });
  }
  threads.clear();
  return errors;
}

TEST(CommunicatorFailure, MissingRanksAreNamed) {
  const uint16_t port = free_port();
  const auto errors = errors_of_connecting(
      {place_on_this_host(0, 5, port), place_on_this_host(1, 5, port), place_on_this_host(3, 5, port)},
      milliseconds(700));
  for (const ErrorOfCall& error : errors) {
    EXPECT_EQ(error.code, ErrorCode::kDevice);
    EXPECT_TRUE(contains(error.text, "Ranks 2 and 4 of 5 did not appear within 0.7 s at 127.0.0.1:"))
        << error.text;
  }
}

TEST(CommunicatorFailure, AMissingStoreIsRankZero) {
  const uint16_t port = free_port();
  const auto errors = errors_of_connecting({place_on_this_host(1, 2, port)}, milliseconds(300));
  EXPECT_EQ(errors[0].code, ErrorCode::kDevice);
  EXPECT_TRUE(contains(errors[0].text, "Rank 0 of 2 did not appear within 0.3 s")) << errors[0].text;
  EXPECT_TRUE(contains(errors[0].text, "Connection refused")) << errors[0].text;
}

TEST(CommunicatorFailure, TwoProcessesThatClaimOneRankAreRefusedWithAllOthers) {
  const uint16_t port = free_port();
  const auto errors = errors_of_connecting(
      {place_on_this_host(0, 3, port), place_on_this_host(1, 3, port), place_on_this_host(1, 3, port)},
      milliseconds(20000));
  for (const ErrorOfCall& error : errors) {
    EXPECT_EQ(error.code, ErrorCode::kUsage);
    EXPECT_TRUE(contains(error.text, "Two processes claim rank 1 of 3")) << error.text;
  }
}

TEST(CommunicatorFailure, RanksThatDisagreeAboutTheirNumberAreRefused) {
  const uint16_t port = free_port();
  const auto errors = errors_of_connecting({place_on_this_host(0, 2, port), place_on_this_host(1, 3, port)},
                                           milliseconds(20000));
  for (const ErrorOfCall& error : errors) {
    EXPECT_EQ(error.code, ErrorCode::kUsage);
    EXPECT_TRUE(contains(error.text, "was started for 3 ranks, but rank 0 for 2")) << error.text;
  }
}

TEST(CommunicatorFailure, RanksOfDifferentProgramsAreRefusedWithBothHashes) {
  const uint16_t port = free_port();
  std::array<ErrorOfCall, 2> errors;
  {
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        errors[static_cast<size_t>(rank)] = error_of([&] {
          connect_ranks(place_on_this_host(rank, 2, port),
                        {.connect_timeout = std::chrono::seconds(20),
                         .program = rank == 0 ? uint64_t{0x1234567890abcdef} : uint64_t{0xfedcba0987654321}});
        });
      });
    }
  }
  for (const ErrorOfCall& error : errors) {
    EXPECT_EQ(error.code, ErrorCode::kUsage);
    EXPECT_TRUE(contains(error.text, "runs another build of the program than rank ")) << error.text;
    EXPECT_TRUE(contains(error.text, "1234567890abcdef")) << error.text;
    EXPECT_TRUE(contains(error.text, "fedcba0987654321")) << error.text;
  }
}

TEST(CommunicatorFailure, APortInUseIsNamedWithTheRemedy) {
  const TcpSocket other = listen_at("127.0.0.1", 0);
  const auto errors = errors_of_connecting({place_on_this_host(0, 2, other.local_port())}, milliseconds(500));
  EXPECT_EQ(errors[0].code, ErrorCode::kDevice);
  EXPECT_TRUE(
      contains(errors[0].text, "Port " + std::to_string(other.local_port()) + " of this host is in use"))
      << errors[0].text;
  EXPECT_TRUE(contains(errors[0].text, "choose another port")) << errors[0].text;
}

// If a rank leaves, a rank that waits for it fails, and so does a third rank that waits for the failed one. The error of the
// third rank must name the rank that left, which it can only learn from the store.
TEST(CommunicatorFailure, ARankThatLeftIsNamedByTheOthers) {
  const uint16_t port = free_port();
  std::array<ErrorOfCall, 3> errors;
  {
    std::vector<std::jthread> threads;
    threads.reserve(3);
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        const auto ranks = connect_ranks(place_on_this_host(rank, 3, port), kTestLimits);
        if (rank == 1) return;
        errors[static_cast<size_t>(rank)] = error_of([&] { ranks->barrier(); });
        EXPECT_TRUE(contains(error_of([&] { ranks->barrier(); }).text, "cannot start barrier"))
            << "after a failure";
      });
    }
  }
  for (const int rank : {0, 2}) {
    EXPECT_EQ(errors[static_cast<size_t>(rank)].code, ErrorCode::kDevice);
    EXPECT_TRUE(contains(errors[static_cast<size_t>(rank)].text, "rank 1 of 3 ended its part of the run"))
        << errors[static_cast<size_t>(rank)].text;
  }
}

TEST(CommunicatorFailure, TheTimeLimitNamesTheRankThatIsLate) {
  const uint16_t port = free_port();
  const CommunicatorOptions limits = {.connect_timeout = std::chrono::seconds(60),
                                      .operation_timeout = milliseconds(300)};
  std::jthread late([&] {
    const auto ranks = connect_ranks(place_on_this_host(1, 2, port), limits);
    std::this_thread::sleep_for(milliseconds(1000));
    const ErrorOfCall error = error_of([&] { ranks->barrier(); });
    EXPECT_TRUE(
        contains(error.text, "rank 0 of 2 failed: all_reduce of 3 f32 elements did not end within 0.3 s"))
        << error.text;
  });
  const auto ranks = connect_ranks(place_on_this_host(0, 2, port), limits);
  std::array<float, 3> data = {};
  const ErrorOfCall error = error_of([&] { ranks->all_reduce({data.data(), DType::kF32}, 3); });
  EXPECT_EQ(error.code, ErrorCode::kDevice);
  EXPECT_TRUE(contains(error.text,
                       "all_reduce of 3 f32 elements did not end within 0.3 s: rank 0 waits for rank 1 of 2"))
      << error.text;
  // Rank 1 answers when it is asked for its position: its row of the table in the error message says that it does not wait in an operation.
  EXPECT_TRUE(contains(error.text, "\n     1  outside of steps  works alone")) << error.text;
  EXPECT_TRUE(contains(error.text, "before the first operation")) << error.text;
  late.join();
}

// If ranks call an operation with different sizes, they must not exchange messages, because Gloo
// would end the process if a message were larger than the memory for it.
TEST(CommunicatorFailure, DifferentSizesEndAtTheTimeLimit) {
  const uint16_t port = free_port();
  const CommunicatorOptions limits = {.connect_timeout = std::chrono::seconds(60),
                                      .operation_timeout = milliseconds(300)};
  std::vector<std::jthread> threads;
  threads.reserve(2);
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto ranks = connect_ranks(place_on_this_host(rank, 2, port), limits);
      std::vector<float> data(rank == 0 ? 1000 : 2000);
      const ErrorOfCall error = error_of([&] {
        ranks->all_reduce({data.data(), DType::kF32}, static_cast<int64_t>(data.size()));
      });
      EXPECT_TRUE(contains(error.text, "with the same sizes")) << error.text;
    });
  }
}

// The host waits for its GPU, and the GPU waits for another rank that has failed. Closing the connection between the GPUs must
// end this wait.
TEST(CommunicatorFailure, AWaitForAGpuEndsAtTheTimeLimitToo) {
  const uint16_t port = free_port();
  const CommunicatorOptions limits = {.connect_timeout = std::chrono::seconds(60),
                                      .operation_timeout = milliseconds(300)};
  std::jthread other([&] {
    const auto ranks = connect_ranks(place_on_this_host(1, 2, port), limits);
    std::this_thread::sleep_for(milliseconds(900));
    EXPECT_TRUE(contains(error_of([&] { ranks->barrier(); }).text,
                         "rank 0 of 2 failed: step 7: the work of the GPU did not end within 0.3 s"));
  });
  const auto ranks = connect_ranks(place_on_this_host(0, 2, port), limits);
  std::promise<std::string> failure;
  ranks->on_failure([&](const std::string& text) { failure.set_value(text); });
  ranks->progress().begin(RankPhase::kStep, 7);
  std::string text;
  {
    const RankProgress::Wait wait(ranks->progress(), "the work of the GPU", RankProgress::Kind::kGpu);
    text = failure.get_future().get();
  }
  EXPECT_TRUE(contains(text, "step 7: the work of the GPU did not end within 0.3 s: rank 0 of 2 waits. "))
      << text;
  EXPECT_TRUE(contains(text, "\n     0  step 7 ")) << text;
  EXPECT_EQ(error_of([&] { ranks->barrier(); }).text, text);
  ranks->on_failure({});
}

// A rank that writes a checkpoint to a slow disk must not be treated as one that no longer responds.
TEST(CommunicatorFailure, ARankThatWorksAloneMayTakeLongerThanAStep) {
  constexpr milliseconds kStepLimit{300};
  const uint16_t port = free_port();
  const auto take_steps = [&](int rank) {
    const auto ranks = connect_ranks(place_on_this_host(rank, 2, port), kTestLimits);
    ranks->progress().begin(RankPhase::kStep, 1, kStepLimit);
    ranks->barrier();
    ranks->progress().begin(RankPhase::kCheckpoint, 1);
    if (rank == 1) std::this_thread::sleep_for(5 * kStepLimit);
    ranks->progress().begin(RankPhase::kStep, 2, kStepLimit);
    ranks->barrier();
    if (rank == 1) std::this_thread::sleep_for(5 * kStepLimit);
    const ErrorOfCall error = error_of([&] { ranks->barrier(); });
    EXPECT_TRUE(
        contains(error.text, "step 2: barrier did not end within 0.3 s: rank 0 waits for rank 1 of 2"))
        << error.text;
    EXPECT_TRUE(contains(error.text, "\n     1  step 2           works alone")) << error.text;
    EXPECT_TRUE(contains(error.text, "after barrier")) << error.text;
  };
  std::jthread other([&] { take_steps(1); });
  take_steps(0);
}

// A rank that runs in a child process. It writes "+" to a pipe when it is connected, and later the text of its error.
class RankProcess {
 public:
  template <typename Body>
  RankProcess(const RankPlace& place, const Body& body, const CommunicatorOptions& limits = kTestLimits) {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(::pipe(ends.data()), 0);
    read_end_ = ends[0];
    pid_ = ::fork();
    if (pid_ != 0) {
      ::close(ends[1]);
      return;
    }
    ::close(ends[0]);
    const ErrorOfCall error = error_of([&] {
      const auto ranks = connect_ranks(place, limits);
      static_cast<void>(!::write(ends[1], "+", 1));
      body(*ranks);
    });
    static_cast<void>(!::write(ends[1], error.text.data(), error.text.size()));
    ::_exit(0);
  }
  RankProcess(RankProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), read_end_(std::exchange(other.read_end_, -1)) {}
  ~RankProcess() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(read_end_);
  }

  void wait_until_connected() const {
    char sign = 0;
    EXPECT_EQ(::read(read_end_, &sign, 1), 1);
    EXPECT_EQ(sign, '+');
  }
  void kill() const { send(SIGKILL); }
  void send(int signal) const { ::kill(pid_, signal); }
  std::string read_error() const {
    std::string text;
    std::array<char, 4096> buffer;
    for (ssize_t n = 0; (n = ::read(read_end_, buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<size_t>(n));
    }
    return text;
  }
  // Returns true if the process ended by itself, without being killed.
  bool ended_well() {
    int status = 0;
    const bool waited = ::waitpid(std::exchange(pid_, -1), &status, 0) > 0;
    ::close(read_end_);
    return waited && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_ = -1;
  int read_end_ = -1;
};

// Kills one rank while all ranks repeat the operation, and expects that every other rank names it soon.
template <typename Body>
void expect_named_victim(int size, int victim, const std::string& operation, const Body& body) {
  const uint16_t port = free_port();
  std::vector<RankProcess> processes;
  processes.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) processes.emplace_back(place_on_this_host(rank, size, port), body);
  for (const RankProcess& process : processes) process.wait_until_connected();
  std::this_thread::sleep_for(milliseconds(150));
  const auto start = steady_clock::now();
  processes[static_cast<size_t>(victim)].kill();
  milliseconds longest{0};
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const std::string text = processes[static_cast<size_t>(rank)].read_error();
    longest = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
    EXPECT_TRUE(contains(text, operation)) << text;
    EXPECT_TRUE(contains(text, "rank " + std::to_string(victim) + " of " + std::to_string(size) + " ended"))
        << text;
    EXPECT_TRUE(processes[static_cast<size_t>(rank)].ended_well());
  }
  // The error usually comes within 0.1 s. The limit is much longer, so that the test passes on a busy machine.
  EXPECT_LT(longest, std::chrono::seconds(5));
  ::testing::Test::RecordProperty("longest_ms", static_cast<int>(longest.count()));
}

// The data is so large that the process is almost always killed in the middle of sending a message.
TEST(CommunicatorFailure, AKilledProcessIsNamedInTheMiddleOfASum) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int victim : {0, 2}) {
      expect_named_victim(4, victim, "all_reduce of 8388608 ", [&](Communicator& ranks) {
        std::vector<std::byte> data(size_t{8388608} * static_cast<size_t>(dtype_bytes(dtype)));
        for (;;) ranks.all_reduce({data.data(), dtype}, 8388608);
      });
    }
  }
}

// Every rank must name the killed rank 3, also rank 1, which is not its neighbour in a ring of four ranks.
TEST(CommunicatorFailure, AKilledProcessIsNamedByRanksThatWait) {
  expect_named_victim(4, 3, "barrier failed", [](Communicator& ranks) {
    if (ranks.rank() == 3) std::this_thread::sleep_for(std::chrono::hours(1));
    ranks.barrier();
  });
}

// The connections of a stopped process stay open, so that it can only be recognized because it does not answer. If rank 0 is
// stopped, the store, which runs in its process, does not answer either.
TEST(CommunicatorFailure, AStoppedProcessIsNamedByATableOfPositions) {
  const CommunicatorOptions limits = {.connect_timeout = std::chrono::seconds(60),
                                      .operation_timeout = milliseconds(1500)};
  for (const int victim : {1, 0}) {
    const uint16_t port = free_port();
    std::vector<RankProcess> processes;
    processes.reserve(3);
    for (int rank = 0; rank < 3; ++rank) {
      processes.emplace_back(
          place_on_this_host(rank, 3, port),
          [](Communicator& ranks) {
            ranks.progress().begin(RankPhase::kStep, 4);
            for (;;) ranks.barrier();
          },
          limits);
    }
    for (const RankProcess& process : processes) process.wait_until_connected();
    std::this_thread::sleep_for(milliseconds(100));
    processes[static_cast<size_t>(victim)].send(SIGSTOP);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string text = processes[static_cast<size_t>(rank)].read_error();
      EXPECT_TRUE(contains(text, "step 4: barrier did not end within 1.5 s: rank ")) << text;
      EXPECT_TRUE(contains(text, "\n     " + std::to_string(victim) + "  not known        does not answer"))
          << text;
      EXPECT_TRUE(processes[static_cast<size_t>(rank)].ended_well());
    }
    processes[static_cast<size_t>(victim)].kill();
  }
}

// Stops all processes and continues them later, as Ctrl-Z and fg do in a shell. No rank may fail because of the pause.
TEST(CommunicatorFailure, TimeInWhichAllProcessesAreStoppedIsNoWait) {
  const CommunicatorOptions limits = {.connect_timeout = std::chrono::seconds(60),
                                      .operation_timeout = milliseconds(2000)};
  const uint16_t port = free_port();
  std::vector<RankProcess> processes;
  processes.reserve(2);
  for (int rank = 0; rank < 2; ++rank) {
    processes.emplace_back(
        place_on_this_host(rank, 2, port),
        [](Communicator& ranks) {
          const auto end = steady_clock::now() + milliseconds(5000);
          float vote = 1;
          while (vote > 0) {
            vote = steady_clock::now() < end ? 1 : -100;
            ranks.all_reduce({&vote, DType::kF32}, 1);
          }
          throw Error(ErrorCode::kInterrupted, "the end");
        },
        limits);
  }
  for (const RankProcess& process : processes) process.wait_until_connected();
  std::this_thread::sleep_for(milliseconds(300));
  for (const RankProcess& process : processes) process.send(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(3500));
  for (const RankProcess& process : processes) process.send(SIGCONT);
  for (const RankProcess& process : processes) EXPECT_EQ(process.read_error(), "the end");
}

TEST(CommunicatorFailure, AKilledProcessIsNamedByTheNextOperation) {
  expect_named_victim(3, 1, "broadcast of 100 bytes from rank 2", [](Communicator& ranks) {
    std::this_thread::sleep_for(milliseconds(600));
    std::vector<std::byte> data(100);
    for (;;) ranks.broadcast(data, 2);
  });
}

}  // namespace
}  // namespace plimsoll
