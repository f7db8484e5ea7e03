// What the GPUs of this machine hold and do, and what they can: the figures of nvidia-smi, read from the
// driver's own library at run time. Nothing is changed on a card. One thread uses a Monitor.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

struct MonitorOptions {
  // "" every GPU; "1" the GPU that nvidia-smi calls 1; "cuda:1" the second of CUDA_VISIBLE_DEVICES.
  std::string device = {};
  bool with_capabilities = false;  // fp16, bf16, tf32, fp8: yes or no, and why
  // Measures once what an empty CUDA context takes on each GPU that is shown, by making one in this process.
  bool with_context = false;
  // The driver's management library, by name or path.
  std::string library = "libnvidia-ml.so.1";
};

// One moment, three times.
struct MonitorReport {
  std::string table;  // for people: a block of rows a GPU
  std::string lines;  // for a log that grows: one line a GPU
  std::string json;   // for programs: one object on one line, no newline
};

class Monitor {
 public:
  // Errors: kUsage where `device` is neither a number nor cuda:N; kDevice where there is no such GPU. Without
  // a driver or a GPU, and where none is asked for, reports show the host and say why.
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
