#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/cuda/cuda_error.h"
#include "kernels/matmul/cublaslt_library.h"
#include "kernels/matmul/matmul_cuda.h"
#include "kernels/matmul/one_cuda.h"

namespace plimsoll {
namespace {

std::string words(const MatmulProblem& p) {
  return fmt::format("C[{}, {}] = A[{}]{} B[{}]{}, {} x {} -> {}", p.m, p.n, p.k,
                     p.trans_a == Transpose::kYes ? "^T" : "", p.k, p.trans_b == Transpose::kYes ? "^T" : "",
                     dtype_name(p.a), dtype_name(p.b), dtype_name(p.c));
}

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kE4M3:
      return CUDA_R_8F_E4M3;
    case DType::kE5M2:
      return CUDA_R_8F_E5M2;
    default:
      PLIMSOLL_CHECK(false, "cuBLASLt does not support matrix products of {}", dtype_name(dtype));
  }
}

// Owns an object of cuBLASLt and destroys it.
template <typename Handle, auto Destroy>
struct Owned {
  Handle handle = nullptr;
  Owned() = default;
  ~Owned() {
    if (handle != nullptr) static_cast<void>((cublaslt().*Destroy)(handle));
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
};
using Desc = Owned<cublasLtMatmulDesc_t, &CublasLt::desc_destroy>;
using Layout = Owned<cublasLtMatrixLayout_t, &CublasLt::layout_destroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::preference_destroy>;

// A matrix product by cuBLASLt, which uses column-major matrices. C[m, n] by rows is C^T[n, m] by columns, the product of B^T and A^T. B is
// therefore the first operand of cuBLASLt and A the second, and a bias of n numbers is added along its rows.
class CublasLtMatmul final : public CudaMatmul {
 public:
  CublasLtMatmul(const MatmulProblem& problem, Fp32Products fp32, const TunedProduct* tuned)
      : problem_(problem) {
    const CublasLt& lt = cublaslt();
    const bool tf32 = problem.a == DType::kF32 && fp32 == Fp32Products::kTf32;
    check(lt.desc_create(&desc_.handle, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "MatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, problem.trans_b == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, problem.trans_a == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N);
    // The factors alpha (of the product) and beta (of the old C) are read from device memory only if the product may add to its output.
    // Otherwise they are passed from the host, because more algorithms of cuBLASLt support that.
    if (problem.writes == MatmulWrites::kOverwriteOrAdd) {
      set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
      one_ = one_on_device();
      zero_ = zero_on_device();
    }
    if (problem.bias == MatmulBias::kRow) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(problem.bias_dtype));
    }
    if (uses_fast_accumulation(problem)) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    const bool tb = problem.trans_b == Transpose::kYes;
    const bool ta = problem.trans_a == Transpose::kYes;
    make_layout(b_, problem.b, tb ? problem.k : problem.n, tb ? problem.n : problem.k, 0);
    make_layout(a_, problem.a, ta ? problem.m : problem.k, ta ? problem.k : problem.m, problem.a_stride);
    make_layout(c_, problem.c, problem.n, problem.m, problem.c_stride);
    // cuBLASLt selects an algorithm depending on which operands have scales, so scales must be set here. Their values do not matter.
    if (is_fp8(problem.a)) set_scales(one_on_device(), one_on_device());
    if (tuned == nullptr || !take(*tuned)) result_ = proposals(1).front();
  }

  void run(const MatmulArgs& args, const int32_t* accumulate, CudaStream stream) override {
    PLIMSOLL_CHECK(args.scratch.size() >= result_.workspaceSize,
                   "the matrix product {} needs a workspace of {} bytes, but has {}", words(problem_),
                   result_.workspaceSize, args.scratch.size());
    PLIMSOLL_CHECK((problem_.bias == MatmulBias::kRow) == static_cast<bool>(args.bias),
                   "a bias must be passed if and only if the matrix product was prepared for one: {}",
                   words(problem_));
    if (args.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias.data);
    PLIMSOLL_CHECK(is_fp8(problem_.a) == static_cast<bool>(args.a_scale) &&
                       is_fp8(problem_.b) == static_cast<bool>(args.b_scale),
                   "a scale must be passed for each fp8 operand and for no other: {}", words(problem_));
    if (args.a_scale) set_scales(args.a_scale.data, args.b_scale.data);
    PLIMSOLL_CHECK(accumulate == nullptr || problem_.writes == MatmulWrites::kOverwriteOrAdd,
                   "the matrix product {} was not prepared to add to its output", words(problem_));
    const bool adds_other = problem_.writes == MatmulWrites::kAddend;
    PLIMSOLL_CHECK(adds_other == static_cast<bool>(args.addend),
                   "an addend must be passed if and only if the matrix product was prepared for one: {}",
                   words(problem_));
    const void* beta = adds_other ? one_ : accumulate != nullptr ? accumulate : zero_;
    const void* addend = adds_other ? args.addend.data : args.c.data;
    check(cublaslt().matmul(cublaslt().handle, desc_.handle, one_, args.b.data, b_.handle, args.a.data,
                            a_.handle, beta, addend, c_.handle, args.c.data, c_.handle, &result_.algo,
                            args.scratch.data(), args.scratch.size(), stream),
          "Matmul");
  }

  // Returns the algorithms that cuBLASLt proposes within the workspace, in its order of preference.
  std::vector<cublasLtMatmulHeuristicResult_t> proposals(int most) const {
    const CublasLt& lt = cublaslt();
    Preference preference;
    check(lt.preference_create(&preference.handle), "MatmulPreferenceCreate");
    const auto workspace = static_cast<uint64_t>(problem_.workspace_bytes);
    check(lt.preference_set(preference.handle, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                            sizeof workspace),
          "MatmulPreferenceSetAttribute");
    // Partial sums must be combined in fp32 and in a fixed order, neither in the type of C nor by atomics, so that results are accurate and
    // repeatable.
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    check(lt.preference_set(preference.handle, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
                            sizeof reductions),
          "MatmulPreferenceSetAttribute");
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
    int found = 0;
    check(lt.heuristic(lt.handle, desc_.handle, b_.handle, a_.handle, c_.handle, c_.handle, preference.handle,
                       most, results.data(), &found),
          "MatmulAlgoGetHeuristic");
    results.resize(static_cast<size_t>(found));
    std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    if (results.empty())
      throw_error(
          ErrorCode::kDevice,
          "cuBLASLt has no algorithm for {} on this GPU; update the library, or choose another precision",
          words(problem_));
    return results;
  }

  std::string description() const override { return words_of(result_); }

  static std::string words_of(const cublasLtMatmulHeuristicResult_t& result) {
    int32_t id = 0;
    uint32_t tile = 0;
    int32_t split_k = 0;
    size_t written = 0;
    const CublasLt& lt = cublaslt();
    static_cast<void>(lt.algo_get(&result.algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &written));
    static_cast<void>(lt.algo_get(&result.algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &written));
    static_cast<void>(
        lt.algo_get(&result.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split_k, sizeof split_k, &written));
    return fmt::format("algorithm {}, tile {}, split {}, workspace {}", id, tile, split_k,
                       result.workspaceSize);
  }

 private:
  void check(cublasStatus_t status, const char* call) const { check_cublaslt(status, call, words(problem_)); }

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublaslt().desc_set(desc_.handle, attribute, &value, sizeof value), "MatmulDescSetAttribute");
  }

  // Sets the addresses of the scales. B is the first operand of cuBLASLt, which calls it A.
  void set_scales(const void* a, const void* b) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, b);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, a);
  }

  // Describes an operand to cuBLASLt. `stride` is the distance in elements between two columns in column-major order; 0 means that it is
  // `rows`.
  void make_layout(Layout& layout, DType dtype, int64_t rows, int64_t columns, int64_t stride) {
    check(cublaslt().layout_create(&layout.handle, cuda_type(dtype), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), stride == 0 ? rows : stride),
          "MatrixLayoutCreate");
  }

  // Uses the algorithm of the tuning table if cuBLASLt accepts it for this product and it fits the workspace. Returns false otherwise.
  bool take(const TunedProduct& tuned) {
    static_assert(sizeof(cublasLtMatmulAlgo_t) == kTunedAlgorithmBytes);
    const CublasLt& lt = cublaslt();
    cublasLtMatmulAlgo_t algorithm = {};
    std::memcpy(&algorithm, tuned.algorithm.data(), sizeof algorithm);
    cublasLtMatmulHeuristicResult_t result = {};
    const cublasStatus_t status = lt.algo_check(lt.handle, desc_.handle, b_.handle, a_.handle, c_.handle,
                                                c_.handle, &algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS ||
        static_cast<int64_t>(result.workspaceSize) > problem_.workspace_bytes) {
      return false;
    }
    result.algo = algorithm;
    result_ = result;
    return true;
  }

  MatmulProblem problem_;
  Desc desc_;
  Layout a_, b_, c_;
  cublasLtMatmulHeuristicResult_t result_ = {};
  float host_factors_[2] = {1.0f, 0.0f};
  const void* one_ = &host_factors_[0];
  const void* zero_ = &host_factors_[1];
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_matmul_cuda(const MatmulProblem& problem, Fp32Products fp32,
                                                const TunedProduct* tuned) {
  if (fp32 == Fp32Products::kTf32x3) return prepare_matmul_tf32x3_cuda(problem, tuned);
  return std::make_unique<CublasLtMatmul>(problem, fp32, tuned);
}

std::vector<TunedProduct> matmul_candidates_cuda(const MatmulProblem& problem, Fp32Products fp32, int most) {
  const bool split = fp32 == Fp32Products::kTf32x3;
  const CublasLtMatmul matmul(library_product(problem, fp32), split ? Fp32Products::kTf32 : fp32, nullptr);
  std::vector<TunedProduct> candidates;
  for (const cublasLtMatmulHeuristicResult_t& result : matmul.proposals(most)) {
    TunedProduct& candidate = candidates.emplace_back();
    std::memcpy(candidate.algorithm.data(), &result.algo, sizeof result.algo);
    candidate.workspace_bytes = static_cast<int64_t>(result.workspaceSize);
    candidate.words = CublasLtMatmul::words_of(result);
  }
  return candidates;
}

std::string matmul_library_cuda() {
  return fmt::format("cuBLASLt {}", cublaslt().version());
}

}  // namespace plimsoll
