// A GuardedBuffer's twin on the GPU, for tests of CUDA kernels: guard zones and poison travel with it, so
// that what a kernel did not write or wrote outside is seen there too. One allocation a buffer: that is what
// compute-sanitizer needs to see a stray access.
//
//   DeviceBuffer x(host_x), y(host_y);            // uploads; y is poisoned still
//   gelu_fwd_cuda({.x = x.view(), .y = y.view(), .n = n}, nullptr);
//   y.download();                                 // into host_y, guard zones included; waits for the GPU
//   EXPECT_TRUE(compare(host_y, want, limit).ok());
//
// Kernels run on the default stream. Errors: as CUDA reports them, thrown. Not thread-safe.
#pragma once

#include "tests/support/compare.h"

namespace plimsoll::test {

class DeviceBuffer {
 public:
  // Uploads the host's buffer, which must outlive this one.
  explicit DeviceBuffer(GuardedBuffer& host);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  View view() const;
  // View of the elements from `first` on.
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
