#include "tests/kill/full_disk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "tests/bad_input/binary.h"
#include "tests/kill/kill_run.h"
#include "tests/support/places.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

struct Failure {
  int error_number;
  const char* on;     // "once": only one call fails; "always": all later calls fail too
  const char* words;  // part of the message that the program must print
};
constexpr Failure kFailures[kNumDiskFailures] = {{ENOSPC, "once", "No space left on device"},
                                                 {ENOSPC, "always", "No space left on device"},
                                                 {EIO, "once", "Input/output error"},
                                                 {EIO, "always", "Input/output error"}};

std::vector<std::string> environment_of(const Failure& failure, int64_t call, const std::string& folder) {
  return {"LD_PRELOAD=" + place("PLIMSOLL_FAILING_CALLS", PLIMSOLL_FAILING_CALLS),
          "PLIMSOLL_FAIL_UNDER=" + folder, "PLIMSOLL_FAIL_AT=" + std::to_string(call),
          "PLIMSOLL_FAIL_ERRNO=" + std::to_string(failure.error_number),
          std::string("PLIMSOLL_FAIL_ON=") + failure.on};
}

constexpr const char* kLastWeights = "/checkpoint-4/model.safetensors";

void copy_run(const std::string& from, const std::string& to) {
  fs::remove_all(to);
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

// Paths of a run in which no call fails. Each run with failures starts from the state of this run after two
// steps. After it was resumed it must end with the weights that this run has after four steps.
struct Reference {
  std::string model;
  std::string begun;     // run folder after two steps
  std::string expected;  // weight file after four steps
};

Reference make_reference(const TestFolder& folder) {
  Reference reference{write_tiny_model(folder), folder.path("begun"), {}};
  const ProcessResult first =
      run_plimsoll(killed_run(reference.model, reference.begun, 2), folder.path("log"));
  EXPECT_EQ(first.exit_code, 0) << first.output;
  const std::string whole = folder.path("reference");
  copy_run(reference.begun, whole);
  EXPECT_EQ(run_plimsoll(killed_run(reference.model, whole, 4), folder.path("log")).exit_code, 0);
  reference.expected = read_file(whole + kLastWeights);
  EXPECT_FALSE(reference.expected.empty());
  return reference;
}

// Expects that the failed run reported the failure and left a valid checkpoint, and that a run that resumes
// from this checkpoint ends with the same bits as a run without failures.
void expect_nothing_lost(const ProcessResult& failed, const Failure& failure, const std::string& run,
                         const TestFolder& folder, const Reference& reference) {
  EXPECT_EQ(failed.signal, 0);
  EXPECT_EQ(failed.exit_code, 7) << failed.output;
  EXPECT_NE(failed.output.find(failure.words), std::string::npos) << failed.output;
  EXPECT_NE(failed.output.find("'" + run), std::string::npos) << "no path in\n" << failed.output;
  EXPECT_EQ(failed.output.find("internal error"), std::string::npos) << failed.output;
  EXPECT_GE(find_newest_verified(posix_file_system(), run).step, 2) << failed.output;
  const ProcessResult rest = run_plimsoll(killed_run(reference.model, run, 4), folder.path("log"));
  EXPECT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_TRUE(read_file(run + kLastWeights) == reference.expected) << rest.output;
}

}  // namespace

bool disk_failure_lasts(int kind) {
  return std::string(kFailures[kind].on) == "always";
}

int expect_failures_lose_nothing(const std::string& name, int kind, int64_t first, int64_t stride) {
  const TestFolder folder(name);
  const Failure& failure = kFailures[kind];
  const Reference reference = make_reference(folder);
  const std::string run = folder.path("run");

  int failed = 0;
  for (int64_t call = first;; call += stride) {
    SCOPED_TRACE(std::string(failure.words) + ", " + failure.on + ", at call " + std::to_string(call));
    copy_run(reference.begun, run);
    const ProcessResult result = run_plimsoll(killed_run(reference.model, run, 4), folder.path("log"), 60000,
                                              environment_of(failure, call, run));
    if (result.output.find("failing call ") == std::string::npos) {
      EXPECT_EQ(result.exit_code, 0) << result.output;
      return failed;
    }
    ++failed;
    expect_nothing_lost(result, failure, run, folder, reference);
    if (::testing::Test::HasFailure() && failed > 40) return failed;
  }
}

}  // namespace plimsoll::testing
