// Support for tests of CUDA kernels: host buffers with copies on the GPU ("twins"), and a check that two runs
// give the same bits. For tests only. Not thread-safe.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/element_wise/testing/kernel_cases.h"
#include "tests/support/device_buffer.h"

namespace plimsoll::test {

inline std::vector<DType> cuda_types() {
  return {DType::kF32, DType::kBF16, DType::kF16};
}

// Returns the shapes of kernel_shapes(), and further shapes for which a GPU kernel uses several thread blocks along the rows and along the
// columns.
inline std::vector<RowsAndColumns> cuda_shapes() {
  std::vector<RowsAndColumns> shapes = kernel_shapes();
  shapes.push_back({300, 1024});
  shapes.push_back({70, 4096});
  shapes.push_back({1500, 24});
  return shapes;
}

// Makes copies of host buffers on the GPU, called their twins. When a buffer is used for the first time, its current bytes are copied to
// its twin. The buffer must outlive this object.
class Twins {
 public:
  View operator()(GuardedBuffer& host) { return twin(host).view(); }
  DeviceBuffer& twin(GuardedBuffer& host) {
    std::unique_ptr<DeviceBuffer>& twin = twins_[&host];
    if (twin == nullptr) twin = std::make_unique<DeviceBuffer>(host);
    return *twin;
  }
  void upload() {
    for (auto& [host, twin] : twins_) twin->upload();
  }
  // Waits for the GPU, copies the bytes of every GPU copy (twin) back to its host buffer, and checks that no guard zone has changed.
  void download() {
    for (auto& [host, twin] : twins_) {
      twin->download();
      EXPECT_EQ(host->broken_guard(), GuardedBuffer::kIntact) << host->name();
    }
  }

 private:
  std::map<GuardedBuffer*, std::unique_ptr<DeviceBuffer>> twins_;
};

inline std::vector<std::vector<char>> bytes_of(const std::vector<GuardedBuffer*>& buffers) {
  std::vector<std::vector<char>> bytes;
  for (GuardedBuffer* buffer : buffers) {
    const char* data = static_cast<const char*>(buffer->view().data);
    bytes.emplace_back(data, data + buffer->size_bytes());
  }
  return bytes;
}

// Runs the kernel twice from the same bytes, expects equal results and leaves them in the host buffers.
inline void run_twice(Twins& gpu, const std::vector<GuardedBuffer*>& outputs,
                      const std::function<void()>& run) {
  for (GuardedBuffer* output : outputs) gpu(*output);
  const std::vector<std::vector<char>> before = bytes_of(outputs);
  run();
  gpu.download();
  const std::vector<std::vector<char>> first = bytes_of(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::memcpy(outputs[i]->view().data, before[i].data(), before[i].size());
  }
  gpu.upload();
  run();
  gpu.download();
  const std::vector<std::vector<char>> second = bytes_of(outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(first[i] == second[i]) << outputs[i]->name() << ": two runs differ";
  }
}

// Returns a buffer of integers, for flags, seeds and counts that kernels read on the device.
inline GuardedBuffer integers(DType dtype, const std::vector<int64_t>& values) {
  GuardedBuffer buffer("integers", dtype, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kI64) {
      buffer.view().as<int64_t>()[i] = values[i];
    } else {
      buffer.view().as<int32_t>()[i] = static_cast<int32_t>(values[i]);
    }
  }
  return buffer;
}

inline void expect_within(const GuardedBuffer& got, const GuardedBuffer& want,
                          const std::vector<double>& bounds, Zeros zeros = Zeros::kExpected) {
  const Comparison result = compare(got, want, limit_of(bounds, zeros));
  EXPECT_TRUE(result.ok()) << result;
}
inline void expect_same_bits(const GuardedBuffer& got, const GuardedBuffer& want) {
  const Comparison result = compare_bits(got, want);
  EXPECT_TRUE(result.ok()) << result;
}

}  // namespace plimsoll::test
