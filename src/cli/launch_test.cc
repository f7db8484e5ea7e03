// Tests the launcher of ranks with shell scripts instead of the program.
#include "cli/launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <thread>

#include "cli/interrupt.h"
#include "plimsoll/error.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::cli {
namespace {

using test::ScratchFolder;
using Clock = std::chrono::steady_clock;

// Waits until the condition holds, at most 20 s, and returns it.
bool wait_until(const std::function<bool()>& condition) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Returns the state of a process from /proc, such as 'S', 'T' (stopped) or 'Z' (ended), or 'X' if it does not exist.
char process_state(pid_t pid) {
  const std::string text = ScratchFolder::read("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? 'X' : text[name_end + 2];
}

bool has_ended(pid_t pid) {
  const char state = process_state(pid);
  return state == 'X' || state == 'Z';
}

// Forks a process that calls launch_ranks() with a script and exits with the result. It is in a process group of its own, as
// a command that a shell starts, and has a second thread that blocks no signal, like the threads that CUDA creates. In the
// script, $D is the scratch folder.
class LaunchedRun {
 public:
  LaunchedRun(const ScratchFolder& folder, const std::string& script, int num_ranks,
              std::chrono::milliseconds grace = std::chrono::seconds(10), int max_restarts = 0)
      : folder_(folder) {
    int num_restarts = 0;
    // After a restart, the script finds the number of restarts in the environment variable START.
    const auto prepare_restart = [&num_restarts]() -> Restart {
      return {.variables = {{"START", std::to_string(++num_restarts)}}, .origin = "resuming from nowhere"};
    };
    const RankCommand command{.words = {"/bin/sh", "-c", "D='" + folder.path() + "'; " + script},
                              .num_ranks = num_ranks,
                              .max_restarts = max_restarts,
                              .prepare_restart = prepare_restart,
                              .grace = grace};
    pid_ = fork();
    if (pid_ == 0) launch(command);
    setpgid(pid_, pid_);
  }
  ~LaunchedRun() {
    if (!is_reaped_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  LaunchedRun(const LaunchedRun&) = delete;
  LaunchedRun& operator=(const LaunchedRun&) = delete;

  pid_t pid() const { return pid_; }
  // Returns the exit code, 1000 + the signal that ended the process, or -1 if it is still running after 20 s.
  int wait() {
    int status = 0;
    const bool ended = wait_until([&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
    is_reaped_ = ended;
    if (!ended) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  std::string messages() const { return file("stderr"); }
  std::string file(const std::string& name) const { return ScratchFolder::read(folder_.path() + "/" + name); }
  // Waits until these files exist.
  bool wait_for(const std::vector<std::string>& names) const {
    return wait_until([&] {
      for (const std::string& name : names) {
        if (file(name).empty()) return false;
      }
      return true;
    });
  }

 private:
  [[noreturn]] void launch(const RankCommand& command) const {
    setpgid(0, 0);
    // Restores the default actions, because the shell that runs this test may ignore these signals.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) std::signal(signal, SIG_DFL);
    const auto put = [&](const char* name, int stream) {
      dup2(open((folder_.path() + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644),
           stream);
    };
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    put("stdout", STDOUT_FILENO);
    put("stderr", STDERR_FILENO);
    std::thread([] {
      while (true) pause();
    }).detach();
    try {
      _exit(launch_ranks(command));
    } catch (const Error& error) {
      static_cast<void>(!write(STDERR_FILENO, error.what(), std::string(error.what()).size()));
      _exit(100);
    }
  }

  const ScratchFolder& folder_;
  pid_t pid_ = -1;
  bool is_reaped_ = false;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Returns a shell command that waits until the file exists.
std::string until(const std::string& file) {
  return "until [ -e \"$D/" + file + "\" ]; do sleep 0.02; done; ";
}

TEST(Launch, EachRankHasItsVariablesAndOnlyRank0TheStandardStreams) {
  const ScratchFolder folder;
  LaunchedRun launcher(
      folder,
      "echo out$RANK; echo err$RANK >&2; echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE "
      "$MASTER_ADDR $MASTER_PORT > \"$D/rank$RANK\"; cat > \"$D/in$RANK\"",
      3);
  EXPECT_EQ(launcher.wait(), 0) << launcher.messages();
  std::string ports[3];
  for (int rank = 0; rank < 3; ++rank) {
    const std::string name = std::to_string(rank);
    const std::string text = launcher.file("rank" + name);
    const std::string expected = std::string(name).append(" 3 ").append(name).append(" 3 127.0.0.1 ");
    ASSERT_TRUE(text.starts_with(expected)) << text;
    ports[rank] = text.substr(expected.size());
  }
  EXPECT_EQ(ports[0], ports[1]);
  EXPECT_EQ(ports[0], ports[2]);
  EXPECT_GT(std::stoi(ports[0]), 1023);
  EXPECT_EQ(launcher.file("stdout"), "out0\n");
  EXPECT_EQ(launcher.messages(), "err0\n");
}

TEST(Launch, ARankThatFailsEndsTheOthersAndItsMessagesAreShown) {
  const ScratchFolder folder;
  const auto begin = Clock::now();
  LaunchedRun launcher(folder, "if [ $RANK = 1 ]; then echo the data is bad >&2; exit 4; fi; exec sleep 60",
                       3);
  EXPECT_EQ(launcher.wait(), 4);
  const std::string messages = launcher.messages();
  EXPECT_TRUE(contains(messages, "rank 1: the data is bad\nplimsoll: rank 1 (process ")) << messages;
  EXPECT_TRUE(contains(messages, ") ended with exit code 4; the other ranks are being stopped\n"))
      << messages;
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10)) << "SIGTERM did not end the others";
}

TEST(Launch, ARankThatASignalEndsFailsTheRunWithCode7) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, "if [ $RANK = 0 ]; then kill -9 $$; fi; exec sleep 60", 2);
  EXPECT_EQ(launcher.wait(), 7);
  EXPECT_TRUE(contains(launcher.messages(), "plimsoll: rank 0 (process ")) << launcher.messages();
  EXPECT_TRUE(contains(launcher.messages(), ") was ended by SIGKILL, which the system sends if memory "))
      << launcher.messages();
}

// The launcher must name the rank whose failure is the cause, even if it notices earlier that other ranks have
// failed because of it.
TEST(Launch, TheCauseIsTheRankThatDidNotFailBecauseOfAPeer) {
  for (const char* script : {"if [ $RANK = 2 ]; then exit 5; fi; sleep 0.1; exit 7",
                             "if [ $RANK != 2 ]; then exit 7; fi; sleep 0.2; echo not finite >&2; exit 5"}) {
    const ScratchFolder folder;
    LaunchedRun launcher(folder, script, 4);
    EXPECT_EQ(launcher.wait(), 5) << script;
    EXPECT_TRUE(contains(launcher.messages(), "plimsoll: rank 2 (process ")) << launcher.messages();
    EXPECT_TRUE(contains(launcher.messages(), ") ended with exit code 5\n")) << launcher.messages();
    EXPECT_FALSE(contains(launcher.messages(), "exit code 7")) << launcher.messages();
  }
}

TEST(Launch, WithoutAnotherCauseTheFirstLostPeerIsReported) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, "if [ $RANK = 1 ]; then echo the GPU is lost >&2; exit 7; fi; exec sleep 60",
                       2);
  EXPECT_EQ(launcher.wait(), 7);
  EXPECT_TRUE(contains(launcher.messages(), "rank 1: the GPU is lost\n")) << launcher.messages();
}

TEST(Launch, OfRanksWithTheSameErrorTheFirstIsReported) {
  const ScratchFolder folder;
  LaunchedRun launcher(
      folder,
      "if [ $RANK = 0 ]; then " + until("one") + "fi; echo no such file >&2; echo > \"$D/one\"; exit 2", 2);
  EXPECT_EQ(launcher.wait(), 2);
  const std::string messages = launcher.messages();
  EXPECT_TRUE(messages.starts_with("no such file\nplimsoll: rank 0 (process ")) << messages;
  EXPECT_FALSE(contains(messages, "rank 1")) << messages;
}

TEST(Launch, OtherRanksMaySaveBeforeTheyAreKilled) {
  const ScratchFolder folder;
  LaunchedRun launcher(
      folder,
      "case $RANK in 0) trap 'echo yes > \"$D/saved\"; exit 6' TERM;; 1) trap '' TERM;; esac; "
      "echo > \"$D/ready$RANK\"; if [ $RANK = 2 ]; then " +
          until("ready0") + until("ready1") + "exit 5; fi; while :; do sleep 0.05; done",
      3, std::chrono::milliseconds(1500));
  EXPECT_EQ(launcher.wait(), 5);
  EXPECT_EQ(launcher.file("saved"), "yes\n");
  EXPECT_TRUE(contains(launcher.messages(), "warning: some ranks did not end within 1 s and are killed\n"))
      << launcher.messages();
}

TEST(Launch, OnlyTheEndOfLongMessagesIsKept) {
  const ScratchFolder folder;
  LaunchedRun launcher(
      folder,
      "if [ $RANK = 0 ]; then exec sleep 60; fi; i=0; while [ $i -lt 10000 ]; do echo line $i is "
      "not the last >&2; i=$((i+1)); done; echo the last >&2; exit 4",
      2);
  EXPECT_EQ(launcher.wait(), 4);
  const std::string messages = launcher.messages();
  EXPECT_TRUE(messages.starts_with("rank 1: (earlier messages are omitted)\nrank 1: line "))
      << messages.substr(0, 200);
  EXPECT_TRUE(contains(messages, "rank 1: the last\nplimsoll: rank 1 ")) << messages.size();
  EXPECT_LT(messages.size(), size_t{128} << 10);
}

TEST(Launch, AProgramThatCannotBeExecutedFails) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, "if [ $RANK = 0 ]; then exec sleep 60; fi; exec /nonexistent/plimsoll", 2);
  EXPECT_EQ(launcher.wait(), 127);
  EXPECT_TRUE(contains(launcher.messages(), ") ended with exit code 127 (the program cannot be executed); "))
      << launcher.messages();
}

TEST(Launch, RanksEndWithTheirParent) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, "echo $$ > \"$D/new$RANK\"; mv \"$D/new$RANK\" \"$D/pid$RANK\"; exec sleep 60",
                       3);
  ASSERT_TRUE(launcher.wait_for({"pid0", "pid1", "pid2"}));
  kill(launcher.pid(), SIGKILL);
  EXPECT_EQ(launcher.wait(), 1000 + SIGKILL);
  for (const char* name : {"pid0", "pid1", "pid2"}) {
    const pid_t rank = std::stoi(launcher.file(name));
    EXPECT_TRUE(wait_until([&] { return has_ended(rank); })) << name;
  }
}

// A script that counts the signals it receives. 0.3 s after the first one it ends with code 6, like
// a rank that saves a checkpoint before it ends.
constexpr const char* kCounting =
    "n=0; trap 'n=$((n+1))' TERM INT; echo > \"$D/ready$RANK\"; while [ $n = 0 ]; do sleep 0.02; done; "
    "sleep 0.3; echo $n > \"$D/count$RANK\"; exit 6";

TEST(Launch, ASignalReachesEachRankOnce) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, kCounting, 3);
  ASSERT_TRUE(launcher.wait_for({"ready0", "ready1", "ready2"}));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), 6);
  for (const char* name : {"count0", "count1", "count2"}) EXPECT_EQ(launcher.file(name), "1\n") << name;
  EXPECT_EQ(launcher.messages(), "");
}

// Ctrl-C sends a signal to every process of a process group. Each rank must nevertheless receive it only once.
TEST(Launch, ASignalToTheGroupReachesEachRankOnce) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, kCounting, 2);
  ASSERT_TRUE(launcher.wait_for({"ready0", "ready1"}));
  kill(-launcher.pid(), SIGINT);
  EXPECT_EQ(launcher.wait(), 6);
  for (const char* name : {"count0", "count1"}) EXPECT_EQ(launcher.file(name), "1\n") << name;
}

TEST(Launch, ASecondSignalIsForwardedToo) {
  const ScratchFolder folder;
  LaunchedRun launcher(
      folder,
      "n=0; trap 'n=$((n+1)); echo > \"$D/seen$n$RANK\"' TERM; echo > \"$D/ready$RANK\"; while "
      "[ $n -lt 2 ]; do sleep 0.02; done; exit 143",
      2);
  ASSERT_TRUE(launcher.wait_for({"ready0", "ready1"}));
  kill(launcher.pid(), SIGTERM);
  ASSERT_TRUE(launcher.wait_for({"seen10", "seen11"}));
  kill(launcher.pid(), SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM);
  EXPECT_EQ(launcher.messages(), "");
}

TEST(Launch, RanksThatStopByThemselvesAreInterruptedNotFailed) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, "exit 6", 2);
  EXPECT_EQ(launcher.wait(), 6);
  EXPECT_EQ(launcher.messages(), "");
}

TEST(Launch, RanksStopAndContinueWithTheirParent) {
  const ScratchFolder folder;
  LaunchedRun launcher(folder, "echo $$ > \"$D/new\"; mv \"$D/new\" \"$D/pid\"; " + until("end") + "exit 0",
                       1);
  ASSERT_TRUE(launcher.wait_for({"pid"}));
  const pid_t rank = std::stoi(launcher.file("pid"));
  kill(launcher.pid(), SIGTSTP);
  EXPECT_TRUE(wait_until([&] { return process_state(launcher.pid()) == 'T' && process_state(rank) == 'T'; }));
  kill(launcher.pid(), SIGCONT);
  EXPECT_TRUE(wait_until([&] { return process_state(rank) != 'T'; }));
  folder.write("end", "\n");
  EXPECT_EQ(launcher.wait(), 0);
}

// Starts a script with at most two restarts.
LaunchedRun restarted(const ScratchFolder& folder, const std::string& script, int num_ranks) {
  return {folder, script, num_ranks, std::chrono::milliseconds(2000), 2};
}

TEST(Launch, RanksAreStartedAgainAfterAFailureThatMayNotOccurAgain) {
  for (const std::string failure : {"kill -9 $$", "exit 7"}) {
    const ScratchFolder folder;
    LaunchedRun launcher =
        restarted(folder,
                  "echo $MASTER_PORT > \"$D/port$START$RANK\"; if [ \"$START\" = 2 ]; then exit 0; fi; "
                  "if [ $RANK = 1 ]; then " +
                      until("port${START}0") + failure + "; fi; exec sleep 60",
                  2);
    EXPECT_EQ(launcher.wait(), 0) << launcher.messages();
    const std::string messages = launcher.messages();
    EXPECT_TRUE(
        contains(messages, "warning: restart 1 of 2 after the failure of rank 1: resuming from nowhere\n"))
        << messages;
    EXPECT_TRUE(contains(messages, "warning: restart 2 of 2 after the failure of rank 1: ")) << messages;
    EXPECT_NE(launcher.file("port0"), launcher.file("port10"));
    EXPECT_EQ(launcher.file("port20"), launcher.file("port21"));
  }
}

TEST(Launch, TheNumberOfRestartsIsLimited) {
  const ScratchFolder folder;
  LaunchedRun launcher = restarted(folder, "echo x >> \"$D/starts\"; exit 7", 1);
  EXPECT_EQ(launcher.wait(), 7);
  EXPECT_EQ(launcher.file("starts"), "x\nx\nx\n");
  EXPECT_TRUE(contains(launcher.messages(),
                       "plimsoll: the run has failed 3 times: --max_restarts 2 permits no other start\n"))
      << launcher.messages();
}

// A failure because of wrong arguments, bad data, a plan that does not fit, numbers that are not finite or a bug would
// occur again, so the run must not be restarted. The same holds for a run that was asked to stop and for a run without
// an error.
TEST(Launch, OtherEndsAreFinal) {
  for (const int code : {0, 1, 2, 3, 4, 5, 6}) {
    const ScratchFolder folder;
    LaunchedRun launcher = restarted(folder, "echo x >> \"$D/starts\"; exit " + std::to_string(code), 1);
    EXPECT_EQ(launcher.wait(), code);
    EXPECT_EQ(launcher.file("starts"), "x\n") << code;
  }
}

TEST(Launch, ARunThatIsAskedToStopIsNotStartedAgain) {
  for (const std::string end : {"trap 'exit 7' TERM", "trap 'kill -9 $$' TERM", ":"}) {
    const ScratchFolder folder;
    LaunchedRun launcher = restarted(
        folder,
        "echo x >> \"$D/starts\"; " + end + "; echo > \"$D/ready$RANK\"; while :; do sleep 0.02; done", 2);
    ASSERT_TRUE(launcher.wait_for({"ready0", "ready1"}));
    kill(launcher.pid(), SIGTERM);
    EXPECT_NE(launcher.wait(), 0);
    EXPECT_EQ(launcher.file("starts"), "x\nx\n") << end;
    EXPECT_FALSE(contains(launcher.messages(), "restart")) << launcher.messages();
  }
}

// The other ranks fail because they wait for the stopped rank, which must be named as the cause.
TEST(Launch, AStoppedRankIsNamedAndKilled) {
  for (const int victim : {0, 1}) {
    const ScratchFolder folder;
    const auto begin = Clock::now();
    LaunchedRun launcher(folder,
                         "if [ $RANK = " + std::to_string(victim) +
                             " ]; then echo > \"$D/here\"; kill -STOP $$; fi; " + until("here") +
                             "sleep 0.3; echo waited >&2; exit 7",
                         3);
    EXPECT_EQ(launcher.wait(), 7);
    const std::string messages = launcher.messages();
    EXPECT_TRUE(contains(messages, "plimsoll: rank " + std::to_string(victim) + " (process ")) << messages;
    EXPECT_TRUE(contains(
        messages,
        ") is stopped (by SIGSTOP or a debugger), and the other ranks have waited for it; it is being "
        "killed\n"))
        << messages;
    EXPECT_TRUE(contains(messages, "waited\n")) << messages;
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(8)) << "the grace time was waited for";
  }
}

TEST(Launch, OtherLaunchersRestartTheirRanksThemselves) {
  Arguments arguments;
  const auto error_of = [&](Launcher launcher) {
    try {
      require_no_restarts(arguments, launcher);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  for (const auto launcher : {Launcher::kTorchrun, Launcher::kSlurm}) EXPECT_EQ(error_of(launcher), "");
  arguments.max_restarts = 3;
  EXPECT_EQ(error_of(Launcher::kNone), "");
  EXPECT_TRUE(contains(error_of(Launcher::kTorchrun), "--max_restarts 3: torchrun has started this process"));
  EXPECT_TRUE(contains(error_of(Launcher::kTorchrun), "give torchrun --max_restarts 3"));
  EXPECT_TRUE(contains(error_of(Launcher::kSlurm), "sbatch --requeue"));
  EXPECT_TRUE(contains(error_of(Launcher::kOpenMpi), "start mpirun again"));
}

TEST(Launch, OnlyAProcessThatIsNoRankStartsRanks) {
  const auto num_ranks = [](const std::vector<std::string>& words, std::optional<int> num_local_ranks) {
    return num_ranks_to_start(parse_arguments(words), num_local_ranks);
  };
  const std::vector<std::string> data = {"--dataset_name", "dummy", "--output_dir", "out"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), data.begin(), data.end());
    return words;
  };
  EXPECT_EQ(num_ranks(data, std::nullopt), 0);
  EXPECT_EQ(num_ranks(with({"--nproc-per-node", "1"}), std::nullopt), 0);
  EXPECT_EQ(num_ranks(with({"--nproc_per_node", "4"}), std::nullopt), 4);
  EXPECT_EQ(num_ranks(with({"--max_restarts", "2"}), std::nullopt), 1);
  EXPECT_EQ(num_ranks(with({"--max_restarts", "2", "--dry_run"}), std::nullopt), 0);
  EXPECT_EQ(num_ranks(with({"--nproc_per_node", "4", "--dry_run"}), std::nullopt), 0);
  EXPECT_EQ(num_ranks(with({"--nproc_per_node", "4", "--do_train", "False"}), std::nullopt), 0);
  EXPECT_EQ(num_ranks(with({"--nproc_per_node", "4"}), 4), 0);
  EXPECT_EQ(num_ranks(data, 4), 0);
  const auto error_of = [&](const std::vector<std::string>& words, std::optional<int> num_local_ranks) {
    try {
      num_ranks(words, num_local_ranks);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(error_of(with({"--nproc_per_node", "4"}), 2),
            "--nproc_per_node 4: this process is a rank, and its launcher has started 2 on this host "
            "(LOCAL_WORLD_SIZE); omit --nproc_per_node, or start plimsoll without torchrun, mpirun or srun");
  EXPECT_EQ(error_of(with({"--nproc_per_node", "1"}), 2).substr(0, 42),
            "--nproc_per_node 1: this process is a rank");
  EXPECT_EQ(
      error_of({"--nproc_per_node", "2", "--train_file", "a.csv", "--test_file", "-", "--output_dir", "out"},
               std::nullopt),
      "--nproc_per_node 2 and --test_file -: ranks cannot share standard input; name a file");
  EXPECT_EQ(
      error_of({"--max_restarts", "2", "--train_file", "a.csv", "--test_file", "-", "--output_dir", "out"},
               std::nullopt),
      "--max_restarts 2 and --test_file -: a run that is started again cannot read standard input again; "
      "name a "
      "file");
  EXPECT_EQ(error_of(with({"--nproc_per_node", "0"}), std::nullopt),
            "--nproc_per_node: 0 is outside [1, 256]");
  EXPECT_EQ(error_of(with({"--nproc_per_node", "-1"}), std::nullopt),
            "--nproc_per_node: -1 is outside [1, 256]");
  EXPECT_TRUE(error_of(with({"--nproc_per_node", "all"}), std::nullopt).starts_with("--nproc_per_node"));
}

// A signal may arrive between a call that fails and the test of its errno. The handler must keep errno.
TEST(Launch, ASignalKeepsErrno) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGTERM, SIG_DFL);
    StoppedBySignals stopped([](void*) { errno = EBADF; }, nullptr, "");
    catch_signals();
    errno = EINTR;
    std::raise(SIGTERM);
    _exit(errno == EINTR ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A rank can receive one request to stop twice, from its launcher and from a batch system. The second signal must not
// end it at once.
TEST(Launch, ARankJoinsSignalsThatArriveTogether) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGTERM, SIG_DFL);
    int num_stops = 0;
    StoppedBySignals stopped([](void* count) { ++*static_cast<int*>(count); }, &num_stops, "");
    catch_signals();
    join_repeated_signals();
    for (int i = 0; i < 3; ++i) std::raise(SIGTERM);
    if (num_stops != 1) _exit(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    std::raise(SIGTERM);
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
}

}  // namespace
}  // namespace plimsoll::cli
