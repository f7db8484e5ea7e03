#include "tests/kill/full_disk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "tests/bad_input/binary.h"
#include "tests/kill/kill_run.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

struct Failure {
  int error_number;
  const char* on;     // "once" or "always"
  const char* words;  // of the message
};
constexpr Failure kFailures[] = {{ENOSPC, "once", "No space left on device"},
                                 {ENOSPC, "always", "No space left on device"},
                                 {EIO, "once", "Input/output error"},
                                 {EIO, "always", "Input/output error"}};

std::vector<std::string> environment_of(const Failure& failure, int64_t call, const std::string& folder) {
  return {"LD_PRELOAD=" + std::string(PLIMSOLL_FAILING_CALLS), "PLIMSOLL_FAIL_UNDER=" + folder,
          "PLIMSOLL_FAIL_AT=" + std::to_string(call),
          "PLIMSOLL_FAIL_ERRNO=" + std::to_string(failure.error_number),
          std::string("PLIMSOLL_FAIL_ON=") + failure.on};
}

}  // namespace

int expect_failures_lose_nothing(const char* name, int64_t stride) {
  const TestFolder folder(name);
  const std::string model = write_tiny_model(folder);
  const std::string begun = folder.path("begun");
  const ProcessResult first = run_plimsoll(killed_run(model, begun, 2), folder.path("log"));
  EXPECT_EQ(first.exit_code, 0) << first.output;
  // The reference goes the same way: two steps, then two more.
  const std::string reference = folder.path("reference");
  fs::copy(begun, reference, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  EXPECT_EQ(run_plimsoll(killed_run(model, reference, 4), folder.path("log")).exit_code, 0);
  const std::string weights = "/checkpoint-4/model.safetensors";
  const std::string expected = read_file(reference + weights);
  EXPECT_FALSE(expected.empty());

  int failed = 0;
  for (const Failure& failure : kFailures) {
    // A disk that stays full differs from one that was full for a moment in what comes after, not in where it
    // begins.
    const int64_t step = std::string(failure.on) == "always" ? 7 * stride : stride;
    for (int64_t call = 0;; call += step) {
      SCOPED_TRACE(std::string(failure.words) + ", " + failure.on + ", at call " + std::to_string(call));
      const std::string run = folder.path("run");
      fs::remove_all(run);
      fs::copy(begun, run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
      const ProcessResult result = run_plimsoll(killed_run(model, run, 4), folder.path("log"), 60000,
                                                environment_of(failure, call, run));
      if (result.output.find("failing call ") == std::string::npos) {
        EXPECT_EQ(result.exit_code, 0) << result.output;
        break;
      }
      ++failed;
      EXPECT_EQ(result.signal, 0);
      EXPECT_EQ(result.exit_code, 7) << result.output;
      EXPECT_NE(result.output.find(failure.words), std::string::npos) << result.output;
      EXPECT_NE(result.output.find("'" + run), std::string::npos) << "no path in\n" << result.output;
      EXPECT_EQ(result.output.find("internal error"), std::string::npos) << result.output;
      const NewestCheckpoint newest = find_newest_verified(posix_file_system(), run);
      EXPECT_GE(newest.step, 2) << result.output;
      const ProcessResult rest = run_plimsoll(killed_run(model, run, 4), folder.path("log"));
      EXPECT_EQ(rest.exit_code, 0) << rest.output;
      EXPECT_TRUE(read_file(run + weights) == expected) << rest.output;
      if (::testing::Test::HasFailure() && failed > 40) return failed;
    }
  }
  return failed;
}

}  // namespace plimsoll::testing
