// A copy of a GuardedBuffer on the GPU, for tests of CUDA kernels. Guard zones and poison are copied too, so
// that elements that a kernel did not write, and writes outside the buffer, are detected there too. Each
// buffer is its own allocation, because compute-sanitizer needs that to detect stray accesses.
//
//   DeviceBuffer x(host_x), y(host_y);            // uploads; y is still poisoned
//   gelu_fwd_cuda({.x = x.view(), .y = y.view(), .n = n}, nullptr);
//   y.download();                                 // into host_y, with guard zones; waits for the GPU
//   EXPECT_TRUE(compare(host_y, want, limit).ok());
//
// Kernels run on the default stream. Errors of CUDA are thrown. Not thread-safe.
#pragma once

#include "tests/support/compare.h"

namespace plimsoll::test {

class DeviceBuffer {
 public:
  // Uploads the host buffer, which must outlive this object.
  explicit DeviceBuffer(GuardedBuffer& host);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  View view() const;
  // Returns a view of the elements from index `first` on.
  View view_from(int64_t first) const;
  template <typename T>
  T* as() const {
    return view().as<T>();
  }
  void upload();
  void download();

 private:
  GuardedBuffer& host_;
  std::byte* block_ = nullptr;
};

}  // namespace plimsoll::test
