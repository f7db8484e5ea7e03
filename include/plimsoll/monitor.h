// The GPUs of this machine: their memory, load and clocks, and what they can do. These are the figures of
// nvidia-smi, read from the driver's management library, which is loaded at run time. Nothing is changed on a
// card. A Monitor is used by one thread.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

struct MonitorOptions {
  // "" every GPU; "1" the GPU that nvidia-smi calls 1; "cuda:1" the second of CUDA_VISIBLE_DEVICES.
  std::string device = {};
  bool with_capabilities = false;  // fp16, bf16, tf32, fp8: yes or no, and why
  // Whether to measure, once, the memory of an empty CUDA context on each GPU that is shown. This process
  // then makes one there.
  bool with_context = false;
  // The driver's management library, by name or path.
  std::string library = "libnvidia-ml.so.1";
};

// One sample, in three formats.
struct MonitorReport {
  std::string table;  // for people: a block of rows a GPU
  std::string lines;  // for a log that grows: one line a GPU
  std::string json;   // for programs: one object on one line, no newline
};

class Monitor {
 public:
  // Errors: kUsage where `device` is neither a number nor cuda:N; kDevice where there is no such GPU. With
  // `device` "" a machine without a driver or a GPU is no error: reports show the host, and say why no GPU.
  explicit Monitor(MonitorOptions options = {});
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Cost: some 10 ms a GPU.
  MonitorReport sample() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
