// Code that is shared by the programs that compare the speed of CUDA kernels with the memory bandwidth: pools of device memory,
// and timing. For one thread; a Bench owns its memory and events.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/view.h"
#include "device/cuda/cuda_error.h"

namespace plimsoll {

inline constexpr int64_t kPoolBytes = int64_t{3} << 30;
inline constexpr int kCalls = 10;
inline constexpr int kBatches = 25;

// A block of device memory. It is divided into buffers one after the other; when it is used up, it starts at its beginning again.
class Pool {
 public:
  Pool() {
    void* data = nullptr;
    PLIMSOLL_CUDA(cudaMalloc(&data, static_cast<size_t>(kPoolBytes)));
    data_ = static_cast<char*>(data);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { static_cast<void>(cudaFree(data_)); }

  // Fills the pool with bits that are small numbers of both signs in every floating-point type.
  void fill() {
    std::vector<uint16_t> host(size_t{32} << 20);
    uint64_t state = 1;
    for (uint16_t& bits : host) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      // The magnitude is in [0.5, 2) if the bits are read as bf16, and near 2 if they are read as f16.
      bits = static_cast<uint16_t>(((state >> 33) & 0x80ff) | 0x3f00);
    }
    const auto bytes = static_cast<int64_t>(host.size() * 2);
    for (int64_t at = 0; at + bytes <= kPoolBytes; at += bytes) {
      PLIMSOLL_CUDA(cudaMemcpy(data_ + at, host.data(), static_cast<size_t>(bytes), cudaMemcpyHostToDevice));
    }
  }
  View take(DType dtype, int64_t count) {
    const int64_t bytes = (count * dtype_bytes(dtype) + 255) / 256 * 256;
    if (next_ + bytes > kPoolBytes) next_ = 0;
    View view{data_ + next_, dtype};
    next_ += bytes;
    return view;
  }

 private:
  char* data_ = nullptr;
  int64_t next_ = 0;
};

// Copies integers into device memory, which is never freed, and returns a view of it.
inline View integers(DType dtype, const std::vector<int64_t>& values) {
  void* data = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(&data, values.size() * 8));
  std::vector<int32_t> narrow_values(values.begin(), values.end());
  const void* from = dtype == DType::kI64 ? static_cast<const void*>(values.data()) : narrow_values.data();
  PLIMSOLL_CUDA(cudaMemcpy(data, from, values.size() * static_cast<size_t>(dtype_bytes(dtype)),
                           cudaMemcpyHostToDevice));
  return {data, dtype};
}

class Bench {
 public:
  explicit Bench(std::span<char* const> words) : words_(words.begin(), words.end()) {
    in.fill();
    out.fill();
    PLIMSOLL_CUDA(cudaEventCreate(&start_));
    PLIMSOLL_CUDA(cudaEventCreate(&stop_));
    cudaDeviceProp card{};
    PLIMSOLL_CUDA(cudaGetDeviceProperties(&card, 0));
    fmt::print("device {}\n", static_cast<const char*>(card.name));
    const int64_t bytes = int64_t{1} << 29;
    copy_rate_ = rate_of_copy(bytes);
    fmt::print("device copy of {} MiB: {:.3f} TB/s (read and written)\n\n", bytes >> 20, copy_rate_ * 1e-9);
    fmt::print("{:<44} {:>9} {:>19} {:>9} {:>7} {:>7} {:>9}\n", "kernel", "ms", "least to most", "MB", "TB/s",
               "share", "same size");
  }

  void measure(const std::string& name, int64_t bytes, const std::function<void()>& call) {
    const auto is_in_name = [&](const std::string& word) { return name.find(word) != std::string::npos; };
    if (!words_.empty() && std::none_of(words_.begin(), words_.end(), is_in_name)) return;
    const Times ms = milliseconds(call);
    const double rate = static_cast<double>(bytes) / ms.median;
    fmt::print("{:<44} {:>9.4f} {:>9.4f}-{:>9.4f} {:>9.2f} {:>7.3f} {:>6.1f}% {:>8.1f}%\n", name, ms.median,
               ms.least, ms.most, static_cast<double>(bytes) * 1e-6, rate * 1e-9, 100.0 * rate / copy_rate_,
               100.0 * rate / rate_of_copy(bytes / 2));
  }

  Pool in, out;  // memory for the inputs and the outputs of kernels

 private:
  struct Times {
    double median, least, most;
  };
  // Returns the rate of a copy of `bytes` bytes, in bytes per millisecond, counting reads and writes.
  double rate_of_copy(int64_t bytes) {
    const auto known = copy_rates_.find(bytes);
    if (known != copy_rates_.end()) return known->second;
    const Times ms = milliseconds([&] {
      PLIMSOLL_CUDA(cudaMemcpyAsync(out.take(DType::kU8, bytes).data, in.take(DType::kU8, bytes).data,
                                    static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice));
    });
    return copy_rates_[bytes] = 2.0 * static_cast<double>(bytes) / ms.median;
  }
  Times milliseconds(const std::function<void()>& call) {
    for (int i = 0; i < 3; ++i) call();
    std::vector<float> times;
    for (int batch = 0; batch < kBatches; ++batch) {
      PLIMSOLL_CUDA(cudaEventRecord(start_));
      for (int i = 0; i < kCalls; ++i) call();
      PLIMSOLL_CUDA(cudaEventRecord(stop_));
      PLIMSOLL_CUDA(cudaEventSynchronize(stop_));
      float ms = 0.0f;
      PLIMSOLL_CUDA(cudaEventElapsedTime(&ms, start_, stop_));
      times.push_back(ms / kCalls);
    }
    std::sort(times.begin(), times.end());
    return {static_cast<double>(times[kBatches / 2]), static_cast<double>(times.front()),
            static_cast<double>(times.back())};
  }

  std::vector<std::string> words_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  double copy_rate_ = 1.0;
  std::map<int64_t, double> copy_rates_;  // the rate of a copy, by the number of copied bytes
};

inline std::string label(std::string_view kernel, DType dtype, int64_t T, int64_t C) {
  return fmt::format("{} {} {}x{}", kernel, dtype_name(dtype), T, C);
}

// Each function measures a group of kernels. They are defined in optimizer_kernels_bench.cc and
// weight_kernels_bench.cc.
void measure_optimizers(Bench& bench);
void measure_dequantize(Bench& bench);

}  // namespace plimsoll
