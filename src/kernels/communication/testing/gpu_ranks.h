// Runs the GPUs of this machine as the ranks of a run, for the tests of collective kernels. If GPUs map each other's memory, each belongs
// to a separate process, because the driver holds locks of a process while a stream waits for another rank. Thread-safety: one thread at a
// time.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/rank_place.h"
#include "device/comm/testing/rank_threads.h"
#include "device/cuda/cuda_error.h"
#include "plimsoll/free_port.h"

namespace plimsoll::test {

// A block of GPU memory, which the destructor frees.
class GpuBlock {
 public:
  explicit GpuBlock(size_t bytes) { PLIMSOLL_CUDA(cudaMalloc(&data_, bytes)); }
  ~GpuBlock() { static_cast<void>(cudaFree(data_)); }
  GpuBlock(const GpuBlock&) = delete;
  GpuBlock& operator=(const GpuBlock&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

// Returns the rank of this process among the processes that run_on_gpus_of_processes() starts; rank 0 of 1 in any other process.
inline RankPlace place_of_this_process() {
  const char* rank = std::getenv("PLIMSOLL_TEST_RANK");
  if (rank == nullptr) return {};
  return {.rank = std::atoi(rank),
          .size = std::atoi(std::getenv("PLIMSOLL_TEST_RANKS")),
          .local_rank = std::atoi(rank),
          .local_size = std::atoi(std::getenv("PLIMSOLL_TEST_RANKS")),
          .store_host = "127.0.0.1",
          .store_port = static_cast<uint16_t>(std::atoi(std::getenv("PLIMSOLL_TEST_PORT")))};
}

// Starts one process per rank and expects that all processes succeed. Each process runs the tests whose names match this filter.
inline void run_on_gpus_of_processes(size_t num_ranks, const std::string& filter) {
  const uint16_t port = free_port();
  std::vector<pid_t> processes;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      setenv("PLIMSOLL_TEST_RANK", std::to_string(rank).c_str(), 1);
      setenv("PLIMSOLL_TEST_RANKS", std::to_string(num_ranks).c_str(), 1);
      setenv("PLIMSOLL_TEST_PORT", std::to_string(port).c_str(), 1);
      execl("/proc/self/exe", "rank", ("--gtest_filter=" + filter).c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    processes.push_back(process);
  }
  for (const pid_t process : processes) {
    int status = 0;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace plimsoll::test
