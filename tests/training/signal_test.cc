// Tests a signal that arrives after a run has failed. There is no run to stop any more, so the program must
// finish printing its error message.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "io/ckpt/checkpoint.h"
#include "tests/bad_input/binary.h"
#include "tests/training/tiny_folder.h"

namespace plimsoll::testing {
namespace {

// The reading end of a named pipe with a capacity of one page. A program that writes more than that is blocked
// until the test reads.
class NarrowPipe {
 public:
  static constexpr int kBytes = 4096;

  explicit NarrowPipe(const std::string& path) {
    if (mkfifo(path.c_str(), 0600) == 0) reader_ = open(path.c_str(), O_RDONLY | O_NONBLOCK);
    is_narrow_ = reader_ >= 0 && fcntl(reader_, F_SETPIPE_SZ, kBytes) == kBytes;
  }
  ~NarrowPipe() {
    if (reader_ >= 0) close(reader_);
  }
  NarrowPipe(const NarrowPipe&) = delete;
  NarrowPipe& operator=(const NarrowPipe&) = delete;

  bool is_narrow() const { return is_narrow_; }
  // Reads until this text has been read, and not one byte more. Reads everything if the text does not occur.
  std::string read_to(const std::string& words) const {
    fcntl(reader_, F_SETFL, 0);
    std::string text;
    for (char byte = 0; !text.ends_with(words) && read(reader_, &byte, 1) == 1;) text += byte;
    return text;
  }

 private:
  int reader_ = -1;
  bool is_narrow_ = false;
};

// The error message contains a path of maximum length. It does not fit into the pipe, so the program is still
// printing it when the signal arrives.
TEST(Signal, WhileAnErrorIsToldThereIsNoRunToStop) {
  const TestFolder folder("signal_after_error");
  Arguments arguments = tiny_arguments(write_tiny_model(folder), "");
  constexpr size_t kLongest = NarrowPipe::kBytes - sizeof "/.plimsoll.lock";
  std::string output_dir = folder.path("run");
  while (output_dir.size() + 2 < kLongest)
    output_dir += "/" + std::string(std::min<size_t>(100, kLongest - output_dir.size() - 1), 'd');
  std::filesystem::create_directories(output_dir);
  const FolderLock lock(output_dir);
  const std::string path = folder.path("told");
  const NarrowPipe told(path);
  if (!told.is_narrow()) GTEST_SKIP() << "no pipe of one page can be made here";
  Process process({"train", "--config_name", arguments.config_name, "--dataset_name", "dummy",
                   "--dummy_num_samples", "8", "--dummy_seq_length", "8", "--max_steps", "2", "--num_threads",
                   "1", "--use_cpu", "--output_dir", output_dir},
                  path, {}, folder.path("plan"));
  const std::string before = told.read_to("plimsoll: /");
  ASSERT_TRUE(before.ends_with("plimsoll: /")) << before;
  process.send(SIGINT);
  // Waits until the signal handler has run.
  sleep_us(100000);
  EXPECT_TRUE(process.is_running());
  const std::string error = told.read_to("there is no such end");
  std::filesystem::remove(path);
  EXPECT_EQ(process.wait().exit_code, 2) << error;
  EXPECT_NE(error.find("is already training into this folder"), std::string::npos) << error;
  EXPECT_EQ(error.find("finishing the step"), std::string::npos) << error;
}

}  // namespace
}  // namespace plimsoll::testing
