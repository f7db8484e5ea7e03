// Faults of the user or the environment end with the right exit code and a message that states the problem,
// the place and the remedy. Input that only looks unusual is accepted. Every case runs the real program.
#include <gtest/gtest.h>
#include <pty.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "plimsoll/error.h"
#include "tests/bad_input/binary.h"
#include "tests/bad_input/ground.h"
#include "tests/support/places.h"

namespace plimsoll::testing {
namespace {

const Ground& ground() {
  static const Ground the_ground;
  return the_ground;
}

void run_cases(const std::vector<Case>& cases) {
  ASSERT_FALSE(cases.empty());
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const ProcessResult result = run_plimsoll(one.command(ground()), ground().path("log"));
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, one.exit_code) << result.output;
    EXPECT_NE(result.exit_code, static_cast<int>(ErrorCode::kInternal)) << result.output;
    EXPECT_EQ(result.output.find("internal error"), std::string::npos) << result.output;
    for (const std::string& word : one.words) {
      EXPECT_NE(result.output.find(word), std::string::npos) << "'" << word << "' is not in:\n"
                                                             << result.output;
    }
    if (one.exit_code == 0) continue;
    // The last lines of the output, which contain the error message, must be short enough to be read.
    EXPECT_LT(result.output.size(), 8000u);
    EXPECT_TRUE(std::ranges::all_of(result.output, [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte >= 32 || byte == '\n' || byte == '\t';
    })) << "control characters reached the terminal";
  }
}

TEST(BadInput, Weights) {
  run_cases(weight_cases());
}
TEST(BadInput, Configurations) {
  run_cases(config_cases());
}
TEST(BadInput, Tokenizers) {
  run_cases(tokenizer_cases());
}
TEST(BadInput, Data) {
  run_cases(data_cases());
}
TEST(BadInput, Arguments) {
  run_cases(argument_cases());
}
TEST(BadInput, Commands) {
  run_cases(command_cases());
}
TEST(BadInput, Folders) {
  run_cases(folder_cases());
}
TEST(BadInput, Adapters) {
  run_cases(adapter_cases());
}
TEST(BadInput, Checkpoints) {
  run_cases(checkpoint_cases());
}
TEST(BadInput, Disguises) {
  run_cases(disguise_cases());
}
TEST(BadInput, Spellings) {
  run_cases(spelling_cases());
}
TEST(BadInput, Settings) {
  run_cases(settings_cases());
}
TEST(BadInput, PackedFiles) {
  run_cases(packed_cases());
}
TEST(BadInput, Corpora) {
  run_cases(corpus_cases());
}
TEST(BadInput, Generate) {
  run_cases(generate_cases());
}
TEST(BadInput, Chats) {
  run_cases(chat_cases());
}

// A run of a model with one layer must not resume from a checkpoint of a model with two layers. The message must say that the checkpoint
// belongs to another model. Its optimizer states do not fit either, but a message about them would mislead the user.
TEST(BadInput, ACheckpointOfADeeperModel) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const std::string run = ground().path("deeper");
  const ProcessResult deeper =
      run_plimsoll(ground().resume(run, {"--config_overrides", "num_hidden_layers=2"}), ground().path("log"));
  ASSERT_EQ(deeper.exit_code, 0) << deeper.output;
  const ProcessResult result = run_plimsoll(
      ground().resume(run, {"--resume_from_checkpoint", "True", "--max_steps", "4"}), ground().path("log"));
  EXPECT_EQ(result.exit_code, 4) << result.output;
  EXPECT_NE(result.output.find("deeper/checkpoint-3: the tensor 'bert.encoder.layer.1."), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("is not part of this run's model"), std::string::npos) << result.output;
}

// If standard output is a file on a full disk, each of these commands must fail with the exit code for this error and a message of one
// line. A training run must still save its model.
TEST(BadInput, StandardOutputThatTakesNothing) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const std::string out = ground().path("printed_nowhere");
  Words train = ground().train(ground().data(), {"--max_steps", "1", "--output_dir", out});
  std::erase(train, "--dry_run");
  for (const Words& command :
       {Words{"--help"}, Words{"--version"}, Words{"train", "--help"}, train, ground().plan(ground().model()),
        ground().evaluate(ground().model(), ground().data()), ground().predict(ground().model()),
        Words{"inspect", ground().model()}, ground().tokenize(ground().model())}) {
    SCOPED_TRACE(command.front());
    const ProcessResult result = Process(command, ground().path("log"), {}, "/dev/full").wait();
    EXPECT_EQ(result.exit_code, 7) << result.output;
    const std::string line = "plimsoll: cannot write to standard output: No space left on device";
    const size_t at = result.output.find(line);
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_EQ(result.output.find('\n', at), result.output.size() - 1) << result.output;
  }
  EXPECT_TRUE(std::filesystem::exists(out + "/model.safetensors"));
}

// Returns the output of the program on a terminal with this number of columns, or nothing if the system
// provides no terminal.
std::optional<std::string> on_terminal(Words words, unsigned short columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  std::string program = place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll");
  std::vector<char*> arguments{program.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int master = -1;
  const pid_t pid = forkpty(&master, nullptr, nullptr, &size);
  if (pid == 0) {
    execv(program.c_str(), arguments.data());
    _exit(127);
  }
  if (pid < 0) return std::nullopt;
  std::string written;
  char piece[4096];
  for (ssize_t count = 0; (count = read(master, piece, sizeof piece)) > 0;)
    written.append(piece, static_cast<size_t>(count));
  close(master);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0) << written;
  return written;
}

// The progress bar must fit the terminal. If it were wider, the terminal would wrap it, and every step would
// leave a part of the old bar on the screen.
TEST(BadInput, TheBarFitsANarrowTerminal) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  Words words = ground().train(ground().data(), {"--max_steps", "4", "--save_strategy", "no"});
  std::erase(words, "--dry_run");
  words[6] = ground().path("narrow");
  const std::optional<std::string> output = on_terminal(words, 60);
  if (!output) GTEST_SKIP() << "no pseudo-terminal can be opened here, /dev/pts is not mounted perhaps";
  const std::string& written = *output;
  constexpr std::string_view kRedraw = "\r\033[K";
  int drawn = 0;
  for (size_t at = written.find(kRedraw); at != std::string::npos; at = written.find(kRedraw, at + 1)) {
    const size_t begin = at + kRedraw.size();
    const std::string bar = written.substr(begin, written.find_first_of("\r\n", begin) - begin);
    drawn += bar.find("loss") == std::string::npos ? 0 : 1;
    EXPECT_LT(
        std::ranges::count_if(bar, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }),
        60)
        << bar;
  }
  EXPECT_GE(drawn, 4) << written;
}

// The first line of the output of a run must name the device, and warnings about outdated names of arguments follow it. If the run is
// refused before it has a device, the output begins with the warnings, and the error follows them.
TEST(BadInput, TheDeviceIsTheFirstLine) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const std::string warning = "warning: --evaluation_strategy is an old name, read as --eval_strategy no\n";
  const ProcessResult run =
      run_plimsoll(ground().train_dummy({"--evaluation_strategy", "no"}), ground().path("log"));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.output.starts_with("device cpu")) << run.output;
  EXPECT_NE(run.output.find(warning), std::string::npos) << run.output;
  const ProcessResult refused = run_plimsoll(
      ground().train(ground().path("nowhere.csv"), {"--evaluation_strategy", "no"}), ground().path("log"));
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_TRUE(refused.output.starts_with(warning)) << refused.output;
}

// `plan` must print its warnings and notes after the table. If the plan does not fit, the error follows them.
TEST(BadInput, APlanEndsWithItsWarningsAndNotes) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  Words words = ground().plan(ground().model());
  words.insert(words.end(), {"--evaluation_strategy", "no", "--max_seq_length", "4096", "--train_file",
                             ground().data(), "--device", "cpu"});
  const std::string old_name = "warning: --evaluation_strategy is an old name, read as --eval_strategy no\n";
  const auto behind_table = [](const ProcessResult& plan) {
    const size_t at = std::min(plan.output.find("warning: "), plan.output.find("note: "));
    EXPECT_GT(at, 500u) << plan.output;
    return plan.output.substr(std::min(at, plan.output.size()));
  };
  const ProcessResult fits = run_plimsoll(words, ground().path("log"));
  EXPECT_EQ(fits.exit_code, 0);
  const std::string remarks = behind_table(fits);
  EXPECT_TRUE(remarks.starts_with(old_name + "warning: --max_seq_length 4096 ")) << fits.output;
  EXPECT_NE(remarks.find("\nnote: --train_file: no tokenizer is given"), std::string::npos) << fits.output;
  words.insert(words.end(), {"--memory_limit", "1MiB"});
  const ProcessResult refused = run_plimsoll(words, ground().path("log"));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_NE(behind_table(refused).find("\nplimsoll: "), std::string::npos) << refused.output;
}

// `inspect` must also accept the name of a model in Hugging Face's cache.
TEST(BadInput, InspectTakesAHubName) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const std::string hub = ground().path("hf_home") + "/hub/models--org--tiny";
  std::filesystem::create_directories(hub + "/refs");
  std::filesystem::create_directories(hub + "/snapshots");
  ground().file("hf_home/hub/models--org--tiny/refs/main", "0123456789abcdef0123456789abcdef01234567");
  std::filesystem::copy(ground().model(), hub + "/snapshots/0123456789abcdef0123456789abcdef01234567");
  const ProcessResult result = run_plimsoll({"inspect", "org/tiny"}, ground().path("log"), 60000,
                                            {"HF_HOME=" + ground().path("hf_home")});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("bert, 1 layer, width 16, 2 heads, vocabulary 112, 2 labels"),
            std::string::npos)
      << result.output;
}

struct ShellResult {
  int exit_code = -1;
  std::string output;
};

// Returns the output of a shell command in which %s is the program.
ShellResult in_shell(std::string command) {
  command.replace(command.find("%s"), 2, place("PLIMSOLL_PROGRAM", PLIMSOLL_BINARY_DIR "/plimsoll"));
  ShellResult result;
  FILE* pipe = popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) result.output.push_back(static_cast<char>(c));
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

// The password database provides the home directory if no variable does, as in Hugging Face's tools.
TEST(BadInput, TheHubsCacheIsInTheHomeOfTheUserWithoutHome) {
  const passwd* user = getpwuid(getuid());
  if (user == nullptr) GTEST_SKIP() << "this user has no line in the password database";
  const ShellResult result = in_shell(
      "env -u HOME -u HF_HOME -u HF_HUB_CACHE -u HUGGINGFACE_HUB_CACHE -u XDG_CACHE_HOME "
      "HF_HUB_OFFLINE=1 %s plan --model_name_or_path org/not-here");
  EXPECT_EQ(result.exit_code, 4) << result.output;
  const std::string folder = std::string(user->pw_dir) + "/.cache/huggingface/hub/models--org--not-here";
  EXPECT_NE(result.output.find("(searched '" + folder + "')"), std::string::npos) << result.output;
}

// The program must refuse to run if the system provides fewer threads than were requested: oneDNN divides a matrix product among the
// requested number of threads, so the parts of missing threads would not be computed.
TEST(BadInput, FewerThreadsThanGivenAreAnError) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const std::string log = ground().path("log");
  const auto train = [&](const Words& more, const std::string& variable) {
    Words words =
        undried(ground().train(ground().data(), {"--max_steps", "1", "--save_strategy", "no", "--output_dir",
                                                 ground().path("limited_threads")}));
    words.insert(words.end(), more.begin(), more.end());
    return run_plimsoll(words, log, 60000, {variable});
  };
  const ProcessResult refused = train({"--num_threads", "2"}, "OMP_THREAD_LIMIT=1");
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_NE(refused.output.find("--num_threads 2: the variable OMP_THREAD_LIMIT allows only 1"),
            std::string::npos)
      << refused.output;
  const ProcessResult limited = train({}, "OMP_THREAD_LIMIT=1");
  EXPECT_EQ(limited.exit_code, 0) << limited.output;
#if defined(__SANITIZE_THREAD__)
  // The program has no OpenMP under ThreadSanitizer and cannot override these variables for oneDNN.
  GTEST_SKIP() << "OMP_DYNAMIC and OMP_MAX_ACTIVE_LEVELS cannot be overridden without OpenMP";
#endif
  for (const char* variable : {"OMP_DYNAMIC=true", "OMP_MAX_ACTIVE_LEVELS=0"}) {
    const ProcessResult overridden = train({"--num_threads", "2"}, variable);
    EXPECT_EQ(overridden.exit_code, 0) << variable << ": " << overridden.output;
  }
}

// Exceeding the limit for the size of a file (RLIMIT_FSIZE) must be reported like a full disk. The program must therefore not be ended by
// the signal SIGXFSZ that the system then sends.
TEST(BadInput, AFileOverTheLimitOfSizesIsAnError) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  Words words = undried(
      ground().train(ground().data(), {"--max_steps", "1", "--output_dir", ground().path("limited")}));
  std::string command = "ulimit -f 8; %s";
  for (const std::string& word : words) command += " '" + word + "'";
  const ShellResult result = in_shell(command);
  EXPECT_EQ(result.exit_code, 7) << result.output;
  EXPECT_NE(result.output.find("File too large"), std::string::npos) << result.output;
}

// The help of a command must list the arguments that it uses. If arguments are given that it does not use, one
// note must name them.
TEST(BadInput, HelpAndNotesAreThoseOfTheCommand) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const ProcessResult help = run_plimsoll({"eval", "--help"}, ground().path("log"));
  EXPECT_EQ(help.output.find("--learning_rate number"), std::string::npos);
  EXPECT_NE(help.output.find("  --validation_file "), std::string::npos);
  const ProcessResult group = run_plimsoll({"eval", "--help", "data"}, ground().path("log"));
  EXPECT_NE(group.output.find("--validation_file text"), std::string::npos);
  EXPECT_EQ(group.output.find("--max_train_samples"), std::string::npos);
  Words words = ground().predict(ground().model());
  words.insert(words.end(), {"--learning_rate", "1e-3", "--do_eval"});
  const ProcessResult predict = run_plimsoll(words, ground().path("log"));
  EXPECT_EQ(predict.exit_code, 0);
  EXPECT_NE(
      predict.output.find("note: --do_eval, --learning_rate have no effect here: a run that only predicts "
                          "does not train or evaluate\n"),
      std::string::npos)
      << predict.output;
}

// If the arguments of `plan` name a data file, it must describe the data with the same lines that a run with this file
// prints at its start.
TEST(BadInput, APlanOfDataIsThatOfTheRun) {
  ASSERT_TRUE(ground().is_good()) << ground().complaint();
  const Words common = {"--config_name", ground().model(), "--num_threads", "1", "--device", "cpu"};
  const Words with_file = {"--tokenizer_name", ground().model(),    "--train_file", ground().data(),
                           "--do_eval",        "--validation_file", ground().data()};
  const Words with_dummy = {"--dataset_name", "dummy", "--dummy_seq_length", "8"};
  for (const Words& data : {with_file, with_dummy}) {
    SCOPED_TRACE(data[0]);
    Words plan = {"plan"};
    plan.insert(plan.end(), common.begin(), common.end());
    plan.insert(plan.end(), data.begin(), data.end());
    Words run = plan;
    run[0] = "train";
    run.insert(run.end(), {"--dry_run", "--output_dir", ground().path("out")});
    std::vector<std::string> printed;
    for (const Words& words : {plan, run}) {
      const std::string out = ground().path("printed");
      std::filesystem::remove(out);
      EXPECT_EQ(Process(words, ground().path("log"), {}, out).wait().exit_code, 0);
      printed.push_back(read_file(out));
    }
    EXPECT_GT(printed[0].size(), 500u);
    EXPECT_EQ(printed[0], printed[1]);
  }
}

// The names of all cases must be unique, and at least 550 cases must expect an error; fewer would mean that cases were lost. The tests
// above run the cases.
TEST(BadInput, TheTableIsLargeAndNamesAreUnique) {
  std::set<std::string> names;
  size_t count = 0;
  size_t bad = 0;
  for (const auto& cases :
       {weight_cases(), config_cases(), tokenizer_cases(), data_cases(), argument_cases(), command_cases(),
        folder_cases(), adapter_cases(), checkpoint_cases(), disguise_cases(), spelling_cases(),
        settings_cases(), packed_cases(), corpus_cases(), generate_cases(), chat_cases()}) {
    for (const Case& one : cases) {
      names.insert(one.name);
      ++count;
      bad += one.exit_code == 0 ? 0 : 1;
      EXPECT_NE(one.exit_code, static_cast<int>(ErrorCode::kInternal))
          << one.name << ": 1 is a bug of Plimsoll";
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_GE(bad, 550u) << "of " << count;
}

}  // namespace
}  // namespace plimsoll::testing
