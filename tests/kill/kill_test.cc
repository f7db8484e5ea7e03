// Tests that a killed run resumes with the same bits, and that an interrupted run saves its state, reports
// this, and can be resumed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/bad_input/binary.h"
#include "tests/kill/kill_run.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

TEST(Kill, EightKillsChangeNothing) {
  expect_kills_change_nothing("kill_quick", 8, 1);
}

// The number of steps is so large that the run is still training when the signal arrives.
constexpr int64_t kManySteps = 100000;

void wait_for_checkpoint(Process& process, const std::string& run) {
  for (int i = 0; i < 60000 && process.is_running() && !std::filesystem::exists(run + "/checkpoint-2"); ++i) {
    sleep_us(1000);
  }
}

TEST(Kill, AnInterruptSavesAndSaysHowToGoOn) {
  const TestFolder folder("interrupt");
  const std::string model = write_tiny_model(folder);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    SCOPED_TRACE(signal);
    const std::string run = folder.path("run" + std::to_string(signal));
    Process process(killed_run(model, run, kManySteps), folder.path("log"));
    wait_for_checkpoint(process, run);
    process.send(signal);
    const ProcessResult result = process.wait();
    EXPECT_EQ(result.exit_code, 6) << result.output;
    EXPECT_NE(result.output.find("finishing the step and saving"), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("--resume_from_checkpoint True"), std::string::npos) << result.output;
    const size_t at = result.output.find("interrupted at step ");
    ASSERT_NE(at, std::string::npos) << result.output;
    const int64_t step = std::stoll(result.output.substr(at + 20));
    EXPECT_GE(step, 2);
    EXPECT_TRUE(std::filesystem::exists(run + "/checkpoint-" + std::to_string(step)));
    const ProcessResult rest = run_plimsoll(killed_run(model, run, step + 2), folder.path("log"));
    EXPECT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_NE(rest.output.find("checkpoint-" + std::to_string(step) + ": step " + std::to_string(step)),
              std::string::npos)
        << rest.output;
  }
}

// Ignores SIGINT as a shell without job control does for a command before '&'.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() : before_(std::signal(SIGINT, SIG_IGN)) {}
  ~IgnoredInterrupts() { std::signal(SIGINT, before_); }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

 private:
  void (*before_)(int);
};

TEST(Kill, ARunInTheBackgroundObeysAnInterruptThatIsSent) {
  const TestFolder folder("interrupt_background");
  const std::string run = folder.path("run");
  const IgnoredInterrupts ignored;
  Process process(killed_run(write_tiny_model(folder), run, kManySteps), folder.path("log"));
  wait_for_checkpoint(process, run);
  process.send(SIGINT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 6) << result.output;
  EXPECT_NE(result.output.find("interrupted at step "), std::string::npos) << result.output;
}

// A command that has no data to save must end at a SIGINT that is sent to it, even if it was started in the background, where a shell makes
// programs ignore SIGINT.
TEST(Kill, OtherWorkInTheBackgroundEndsAtAnInterruptThatIsSent) {
  const TestFolder folder("interrupt_tokenize");
  const std::string pipe = folder.path("lines");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string model = write_tiny_model(folder);
  write_uneven_rows(folder, 1);
  const IgnoredInterrupts ignored;
  Process process({"tokenize", "--tokenizer_name", model, pipe}, folder.path("log"));
  // The input file of the program is a pipe into which nothing is written, so the program waits. When it opens the
  // pipe, it has started completely.
  int writer = -1;
  for (int i = 0; i < 20000 && writer < 0 && process.is_running(); ++i) {
    writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
    if (writer < 0) sleep_us(1000);
  }
  ASSERT_GE(writer, 0) << process.output();
  process.send(SIGINT);
  const ProcessResult result = process.wait(10000);
  close(writer);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.signal, SIGINT) << result.exit_code << result.output;
}

// If a user presses Ctrl-C in the terminal of a script, only the script must end. A run that the script
// started in the background ignores the signal.
TEST(Kill, ARunInTheBackgroundDoesNotObeyItsTerminal) {
  const TestFolder folder("interrupt_terminal");
  const std::string run = folder.path("run");
  std::vector<std::string> words = killed_run(write_tiny_model(folder), run, kManySteps);
  words.insert(words.begin(), place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll"));
  words.emplace_back("--disable_tqdm");
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) {
    std::signal(SIGINT, SIG_IGN);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  if (pid < 0) GTEST_SKIP() << "no pseudo-terminal can be opened here, /dev/pts is not mounted perhaps";
  std::string seen;
  // Reads the output until the program has printed this text. If nobody read it, the program would block.
  const auto read_until = [&](const std::string& text) {
    char piece[4096];
    while (seen.find(text) == std::string::npos) {
      const ssize_t count = read(terminal, piece, sizeof piece);
      if (count <= 0) return false;
      seen.append(piece, static_cast<size_t>(count));
    }
    seen.clear();
    return true;
  };
  // The terminal shows ^C after it has sent the signal. The lines of the log that follow show that the run
  // continues.
  EXPECT_TRUE(read_until("loss "));
  ASSERT_EQ(write(terminal, "\x03", 1), 1);
  EXPECT_TRUE(read_until("^C"));
  for (int line = 0; line < 3; ++line) EXPECT_TRUE(read_until("loss "));
  EXPECT_EQ(seen.find("finishing the step"), std::string::npos) << seen;
  kill(pid, SIGINT);
  EXPECT_TRUE(read_until("interrupted at step "));
  char piece[4096];
  while (read(terminal, piece, sizeof piece) > 0) {
  }
  close(terminal);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 6) << status;
}

TEST(Kill, TheSecondInterruptStopsAtOnce) {
  // A step of this run takes so long that it is still running when the second interrupt arrives.
  const TestFolder folder("interrupt_twice");
  const std::string model = write_tiny_model(folder);
  std::vector<std::string> words = killed_run(model, folder.path("run"), 3);
  words.insert(words.end(), {"--gradient_accumulation_steps", "100000", "--dummy_num_samples", "300000"});
  Process process(words, folder.path("log"));
  for (int i = 0;
       i < 20000 && process.is_running() && process.output().find("starting from") == std::string::npos; ++i)
    sleep_us(1000);
  process.send(SIGINT);
  for (int i = 0;
       i < 20000 && process.is_running() && process.output().find("second signal") == std::string::npos; ++i)
    sleep_us(1000);
  EXPECT_TRUE(process.is_running()) << process.output();
  process.send(SIGINT);
  const ProcessResult result = process.wait(5000);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + SIGINT) << result.output;
  EXPECT_EQ(result.output.find("interrupted at step"), std::string::npos);
}

TEST(Kill, ATerminalThatClosesSaysSoTwiceAndTheRunIsSaved) {
  const TestFolder folder("hang_up_twice");
  const std::string model = write_tiny_model(folder);
  Process process(killed_run(model, folder.path("run"), kManySteps), folder.path("log"));
  wait_for_checkpoint(process, folder.path("run"));
  for (int i = 0; i < 3; ++i) process.send(SIGHUP);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.exit_code, 6) << result.output;
  EXPECT_NE(result.output.find("interrupted at step "), std::string::npos) << result.output;
}

TEST(Kill, AnInterruptSavesWithNobodyLeftToReadWhatIsPrinted) {
  // In `plimsoll train ... 2>&1 | tee log`, Ctrl-C also ends `tee`, so that nobody reads the output any more.
  // The pipe without a reader simulates this.
  const TestFolder folder("interrupt_without_reader");
  const std::string model = write_tiny_model(folder);
  const std::string run = folder.path("run");
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  Process process(killed_run(model, run, kManySteps), pipe);
  // Process::wait() would open this pipe by its name to read the log. Opening a pipe that nobody writes to
  // blocks forever, so the name is removed.
  std::filesystem::remove(pipe);
  wait_for_checkpoint(process, run);
  close(reader);
  process.send(SIGINT);
  const ProcessResult result = process.wait();
  EXPECT_EQ(result.signal, 0);
  EXPECT_EQ(result.exit_code, 6);
  const ProcessResult rest = run_plimsoll(killed_run(model, run, 1), folder.path("log"));
  EXPECT_NE(rest.output.find("resuming from " + run), std::string::npos) << rest.output;
}

TEST(Kill, ADryRunEndsQuietlyWithItsReader) {
  const TestFolder folder("dry_run_without_reader");
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::vector<std::string> words = killed_run(write_tiny_model(folder), folder.path("run"), 1);
  words.emplace_back("--dry_run");
  Process process(words, folder.path("log"), {}, pipe);
  close(reader);
  const ProcessResult result = process.wait();
  // On a busy machine the program may finish printing before the test closes its end of the pipe. The program
  // then ends normally and not with SIGPIPE.
  EXPECT_TRUE(result.signal == SIGPIPE || result.exit_code == 0) << result.exit_code << result.output;
  EXPECT_EQ(result.output.find("cannot write"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace plimsoll::testing
