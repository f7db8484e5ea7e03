// Lists of tensors for the tests and benchmarks of this folder: owned buffers, and the views that kernels take as arguments. Thread-safe:
// distinct lists may be used from distinct threads. Owns its buffers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/split_f32.h"
#include "kernels/optimizer/tensor_list.h"
#include "tests/support/compare.h"

namespace plimsoll::test {

// Numbers of elements that are difficult for kernels: one element, fewer elements than a SIMD vector has, about one grain of kTensorGrain
// elements, and several tasks (tensor_list.h).
inline const std::vector<int64_t> kAwkwardCounts = {1, 7, 64, 1023, 1024, 1025, 3, 20000, 0, 40003, 768};

// Sets a bf16 copy of fp32 parameters: rounded to nearest, with ties away from zero.
inline void assign_upper_halves(GuardedBuffer& copy, const GuardedBuffer& param) {
  for (int64_t i = 0; i < param.count(); ++i) {
    copy.view().as<BF16>()[i].bits = split_f32(static_cast<float>(param.view().load(i))).high;
  }
}

// Returns the part of the view that begins at index `element`.
inline View from_element(ConstView view, int64_t element) {
  auto* data = static_cast<std::byte*>(const_cast<void*>(view.data));
  return {data + element * dtype_bytes(view.dtype), view.dtype};
}

// Returns the 16-bit copy that an update makes of these fp32 parameters.
inline GuardedBuffer copy_of_parameters(const GuardedBuffer& param, DType dtype) {
  GuardedBuffer copy("copy of " + param.name(), dtype, param.count());
  copy.assign(param.to_doubles());
  if (dtype == DType::kBF16) assign_upper_halves(copy, param);
  return copy;
}

class TensorList {
 public:
  // In every tensor, param, grad, m and v have type `dtype`. They contain NaN until they are filled or copied, so that tests detect reads
  // of unset elements.
  TensorList(const std::string& name, DType dtype, const std::vector<int64_t>& counts) {
    for (size_t i = 0; i < counts.size(); ++i) {
      for (const char* part : {"param", "grad", "m", "v"}) {
        buffers_.push_back(
            std::make_unique<GuardedBuffer>(name + "/" + part + std::to_string(i), dtype, counts[i]));
      }
      tensors_.push_back({.param = param(i).view(),
                          .grad = grad(i).view(),
                          .m = m(i).view(),
                          .v = v(i).view(),
                          .count = counts[i]});
    }
  }
  size_t size() const { return tensors_.size(); }
  std::span<const OptimizerTensor> tensors() const { return tensors_; }
  std::vector<OptimizerTensor>& mutable_tensors() { return tensors_; }
  GuardedBuffer& param(size_t i) { return *buffers_[4 * i]; }
  GuardedBuffer& grad(size_t i) { return *buffers_[4 * i + 1]; }
  GuardedBuffer& m(size_t i) { return *buffers_[4 * i + 2]; }
  GuardedBuffer& v(size_t i) { return *buffers_[4 * i + 3]; }

  // Fills in plausible numbers: weights and gradients of both signs, and positive second moments.
  void fill() {
    for (size_t i = 0; i < size(); ++i) {
      param(i).fill_normal();
      grad(i).fill_normal();
      m(i).fill_normal(0.0, 0.5);
      v(i).fill_uniform(0.01, 2.0);
    }
  }
  // Sets the optimizer states to zero, as they are before the first update.
  void clear_states() {
    for (size_t i = 0; i < size(); ++i) {
      m(i).fill(0.0);
      v(i).fill(0.0);
    }
  }
  // Copies all tensors of another list, whose elements may have another type.
  void copy_from(TensorList& other) {
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i]->assign(other.buffers_[i]->to_doubles());
  }

 private:
  std::vector<std::unique_ptr<GuardedBuffer>> buffers_;
  std::vector<OptimizerTensor> tensors_;
};

// Copies of the moments of a list in bf16, in separate buffers.
struct NarrowMoments {
  std::vector<GuardedBuffer> m, v;

  explicit NarrowMoments(TensorList& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      m.emplace_back("adamw_moments/m", DType::kBF16, list.m(i).count()).assign(list.m(i).to_doubles());
      v.emplace_back("adamw_moments/v", DType::kBF16, list.v(i).count()).assign(list.v(i).to_doubles());
    }
  }
  void give_to(TensorList& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      list.mutable_tensors()[i].m = m[i].view();
      list.mutable_tensors()[i].v = v[i].view();
    }
  }
};

// Copies of the parameters of a list in bf16, in separate buffers, for updates of parameters that are stored only in bf16. List is any of
// the list types of this folder.
struct NarrowParameters {
  std::vector<GuardedBuffer> p;

  template <typename List>
  explicit NarrowParameters(List& list) {
    for (size_t i = 0; i < list.size(); ++i) {
      p.emplace_back("narrow/p", DType::kBF16, list.param(i).count()).assign(list.param(i).to_doubles());
    }
  }
  template <typename List>
  void give_to(List& list) {
    for (size_t i = 0; i < list.size(); ++i) list.mutable_tensors()[i].param = p[i].view();
  }
};

}  // namespace plimsoll::test
