// The GPU drivers that tests/monitor/fake_nvml.cc simulates, and the machines on which they run. Not thread-safe.
#pragma once

#include <cstdlib>
#include <string>

namespace plimsoll::testing {

// Returns the folder that contains a fake driver: "driver" for a current one, "old_driver" for an old one.
inline std::string driver_folder(const std::string& kind = "driver") {
  return std::string(PLIMSOLL_FAKE_DRIVERS) + "/" + kind;
}

inline std::string driver_library(const std::string& kind = "driver") {
  return driver_folder(kind) + "/libnvidia-ml.so.1";
}

// While an object of this class exists, the fake driver in this process simulates the machine with this name (see fake_nvml.cc).
class FakeMachine {
 public:
  explicit FakeMachine(const char* name) { setenv("PLIMSOLL_FAKE_GPUS", name, 1); }
  ~FakeMachine() { unsetenv("PLIMSOLL_FAKE_GPUS"); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
};

}  // namespace plimsoll::testing
