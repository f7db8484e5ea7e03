// Times linear layers on the current GPU at the shapes of BERT, GPT-2 and Llama-3.2-1B:
// - with a bias, with a separate addend, with the result as addend, and with neither: by Plimsoll's own
//   kernel and by cuBLASLt;
// - with GELU: by Plimsoll's own kernel, by the kernel that prepare_linear_gelu_cuda() chooses, by cuBLASLt's product followed by
//   bias_gelu, and by cuBLASLt's product without bias_gelu;
// - a widening layer followed by the layer that adds a residual, over all rows at once and over chunks of
//   rows;
// - with a residual and the norm that follows: by Plimsoll's own kernel, and by the product with an addend followed by the norm in place;
// - of few rows, as in a decoding step, by Plimsoll's own kernel, once allowed to read the weights before the previous kernel has ended and
//   once not, and by cuBLASLt. Each of the captured calls reads another copy of the weights, so that they come from device memory.
//
// Prints milliseconds, the mean of consecutive calls for kSeconds: products keep a GPU at its power limit and slow it down within that
// time, which single calls would not show. Compared kernels run alternately, kRepetitions times each, and the median is printed, provided
// that their results agree. The program does not use a benchmark library.
//
//   linear_cuda_bench [bias] [addend] [plain] [gelu] [norm] [chunks] [few]     default: all
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_error.h"
#include "kernels/element_wise/gelu.h"
#include "kernels/matmul/linear_gelu.h"
#include "kernels/matmul/linear_norm.h"
#include "kernels/matmul/matmul_cuda.h"

namespace plimsoll {
namespace {

constexpr double kSeconds = 0.2;
constexpr int kRepetitions = 3;
constexpr int kSm = 90;

// Returns a stream that can be captured in a CUDA graph, which the default stream cannot.
cudaStream_t stream() {
  static const cudaStream_t made = [] {
    cudaStream_t to = nullptr;
    PLIMSOLL_CUDA(cudaStreamCreate(&to));
    return to;
  }();
  return made;
}

// Fills a tensor with reproducible numbers in bf16, roughly normal with a standard deviation of `scale`. Each is the sum of four hashes of
// the index.
__global__ void fill(uint16_t* data, int64_t count, float scale) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    uint64_t hash = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15ull;
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      hash ^= hash >> 31;
      hash *= 0xbf58476d1ce4e5b9ull;
      hash ^= hash >> 27;
      sum += static_cast<float>(hash >> 40) * 0x1p-24f - 0.5f;
    }
    data[i] = static_cast<uint16_t>(__float_as_uint(sum * 1.732f * scale) >> 16);
  }
}

View make(int64_t count, float scale) {
  void* data = nullptr;
  PLIMSOLL_CUDA(cudaMalloc(&data, static_cast<size_t>(count) * 2));
  fill<<<1024, 256, 0, stream()>>>(static_cast<uint16_t*>(data), count, scale);
  PLIMSOLL_CHECK_LAUNCH("fill");
  return {data, DType::kBF16};
}

template <typename Call>
double mean_ms(const Call& call) {
  cudaEvent_t start, stop;
  PLIMSOLL_CUDA(cudaEventCreate(&start));
  PLIMSOLL_CUDA(cudaEventCreate(&stop));
  float ms = 0;
  for (int calls = 4;; calls = static_cast<int>(kSeconds * 1e3 * calls / static_cast<double>(ms)) + 1) {
    const bool is_last = ms > 0;
    PLIMSOLL_CUDA(cudaEventRecord(start, stream()));
    for (int i = 0; i < calls; ++i) call();
    PLIMSOLL_CUDA(cudaEventRecord(stop, stream()));
    PLIMSOLL_CUDA(cudaEventSynchronize(stop));
    PLIMSOLL_CUDA(cudaEventElapsedTime(&ms, start, stop));
    if (!is_last) continue;
    PLIMSOLL_CUDA(cudaEventDestroy(start));
    PLIMSOLL_CUDA(cudaEventDestroy(stop));
    return static_cast<double>(ms) / calls;
  }
}

// Returns the median time of each call over kRepetitions repetitions.
std::vector<double> medians_ms(const std::vector<std::function<void()>>& calls) {
  std::vector<std::vector<double>> times(calls.size());
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    for (size_t i = 0; i < calls.size(); ++i) times[i].push_back(mean_ms(calls[i]));
  }
  std::vector<double> medians;
  for (std::vector<double>& of : times) {
    std::nth_element(of.begin(), of.begin() + kRepetitions / 2, of.end());
    medians.push_back(of[kRepetitions / 2]);
  }
  return medians;
}

// Counts the elements of two bf16 results that differ by more than the allowed error: two roundings to bf16, and the error of sums whose
// magnitude is about one.
__global__ void count_far(const uint16_t* a, const uint16_t* b, int64_t count, float slack,
                          unsigned long long* far) {
  for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    const float x = __uint_as_float(static_cast<uint32_t>(a[i]) << 16);
    const float y = __uint_as_float(static_cast<uint32_t>(b[i]) << 16);
    if (!(fabsf(x - y) <= slack * (0x1p-6f * fabsf(x) + 0x1p-7f))) atomicAdd(far, 1ull);
  }
}
// Returns true if two results agree. `slack` multiplies the allowed difference.
bool near(const View& a, const View& b, int64_t count, const char* what, float slack = 1) {
  unsigned long long* far = nullptr;
  unsigned long long found = 0;
  PLIMSOLL_CUDA(cudaMalloc(&far, sizeof found));
  PLIMSOLL_CUDA(cudaMemsetAsync(far, 0, sizeof found, stream()));
  count_far<<<1024, 256, 0, stream()>>>(static_cast<const uint16_t*>(a.data),
                                        static_cast<const uint16_t*>(b.data), count, slack, far);
  PLIMSOLL_CHECK_LAUNCH("count_far");
  PLIMSOLL_CUDA(cudaMemcpyAsync(&found, far, sizeof found, cudaMemcpyDeviceToHost, stream()));
  PLIMSOLL_CUDA(cudaStreamSynchronize(stream()));
  PLIMSOLL_CUDA(cudaFree(far));
  if (found > 0) std::printf("%s: %llu results are wrong\n", what, found);
  return found == 0;
}

MatmulProblem product_of(int64_t rows, int64_t columns, int64_t terms) {
  return {.m = rows,
          .n = columns,
          .k = terms,
          .trans_b = Transpose::kYes,
          .a = DType::kBF16,
          .b = DType::kBF16,
          .c = DType::kBF16};
}
double gflop(const MatmulProblem& problem) {
  return 2e-9 * static_cast<double>(problem.m * problem.n * problem.k);
}

struct Operands {
  explicit Operands(const MatmulProblem& p)
      : x(make(p.m * p.k, 1.0f)),
        w(make(p.n * p.k, 0.035f)),
        bias(make(p.n, 0.5f)),
        y(make(p.m * p.n, 1.0f)),
        z(make(p.m * p.n, 1.0f)),
        workspace(make(kCublasLtWorkspaceBytes / 2, 0.0f)) {}
  ~Operands() {
    for (const View& view : {x, w, bias, y, z, workspace}) static_cast<void>(cudaFree(view.data));
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  std::span<std::byte> scratch() const {
    return {static_cast<std::byte*>(workspace.data), static_cast<size_t>(kCublasLtWorkspaceBytes)};
  }
  View x, w, bias, y, z, workspace;
};

enum class Added { kNothing, kBias, kAddend, kAddendInPlace };

void layer(Added added, int64_t rows, int64_t columns, int64_t terms) {
  const bool adds = added == Added::kAddend || added == Added::kAddendInPlace;
  const char* const name = added == Added::kNothing  ? "plain"
                           : added == Added::kBias   ? "bias"
                           : added == Added::kAddend ? "addend"
                                                     : "addend in place";
  MatmulProblem problem = product_of(rows, columns, terms);
  problem.bias = added == Added::kBias ? MatmulBias::kRow : MatmulBias::kNone;
  problem.bias_dtype = DType::kBF16;
  if (adds) problem.writes = MatmulWrites::kAddend;
  const Operands o(problem);
  const View addend = make(adds ? rows * columns : 1, 1.0f);
  const auto own = prepare_own_matmul_cuda(problem, kSm);
  const auto library = prepare_matmul_cuda(problem, Fp32Products::kF32);
  const auto run_with = [&](CudaMatmul& matmul, const View& c, const View& other) {
    matmul.run({.a = o.x,
                .b = o.w,
                .bias = added == Added::kBias ? o.bias : View{},
                .c = c,
                .addend = adds ? other : View{},
                .scratch = o.scratch()},
               nullptr, stream());
  };
  run_with(*own, o.y, addend);
  run_with(*library, o.z, addend);
  const bool right = near(o.y, o.z, rows * columns, name);
  // If the addend is also the result, it changes with every call, so the results of the timed calls cannot be compared. The
  // results y (Plimsoll's kernel) and z (cuBLASLt) have therefore been compared before.
  const auto run = [&](CudaMatmul& matmul, const View& c) {
    run_with(matmul, c, added == Added::kAddendInPlace ? c : addend);
  };
  std::vector<double> ms(2);
  if (right) ms = medians_ms({[&] { run(*own, o.y); }, [&] { run(*library, o.z); }});
  PLIMSOLL_CUDA(cudaFree(addend.data));
  if (!right) return;
  std::printf("%s %6lld x %5lld x %5lld: Plimsoll %8.4f ms %6.1f TFLOP/s, cuBLASLt %8.4f ms %6.1f (%s), %s\n",
              name, static_cast<long long>(rows), static_cast<long long>(columns),
              static_cast<long long>(terms), ms[0], gflop(problem) / ms[0], ms[1], gflop(problem) / ms[1],
              library->description().c_str(),
              matmul_takes_own_product(problem, kSm) ? "Plimsoll is used" : "cuBLASLt is used");
  std::fflush(stdout);
}

void gelu(int64_t rows, int64_t columns, int64_t terms) {
  const LinearProblem problem{.rows = rows, .columns = columns, .terms = terms, .sm = kSm};
  const MatmulProblem alone = product_of(rows, columns, terms);
  const Operands o(alone);
  const MatmulArgs args{.a = o.x, .b = o.w, .bias = o.bias, .c = o.y, .scratch = o.scratch()};
  const auto own = prepare_own_linear_gelu_cuda(problem), chosen = prepare_linear_gelu_cuda(problem);
  const auto product = prepare_matmul_cuda(alone, Fp32Products::kF32);
  const auto multiply = [&] {
    product->run({.a = o.x, .b = o.w, .bias = {}, .c = o.z, .scratch = o.scratch()}, nullptr, stream());
  };
  const auto apart = [&] {
    multiply();
    bias_gelu_fwd_cuda({.h = o.z, .b = o.bias, .y = o.z, .T = rows, .C = columns}, stream());
  };
  own->run(args, nullptr, stream());
  apart();
  if (!near(o.y, o.z, rows * columns, "a layer with GELU")) return;
  const std::vector<double> ms = medians_ms({[&] { own->run(args, nullptr, stream()); },
                                             [&] { chosen->run(args, nullptr, stream()); }, apart, multiply});
  std::printf(
      "gelu %6lld x %5lld x %5lld: Plimsoll %8.4f ms %6.1f TFLOP/s, chosen %8.4f (%s), product and bias_gelu "
      "%8.4f, "
      "product alone %8.4f ms %6.1f TFLOP/s\n",
      static_cast<long long>(rows), static_cast<long long>(columns), static_cast<long long>(terms), ms[0],
      gflop(alone) / ms[0], ms[1], chosen->description().c_str(), ms[2], ms[3], gflop(alone) / ms[3]);
  std::fflush(stdout);
}

void norm(int64_t rows, int64_t columns, int64_t terms) {
  const LinearProblem problem{.rows = rows, .columns = columns, .terms = terms, .sm = kSm};
  const MatmulProblem alone = product_of(rows, columns, terms);
  const Operands o(alone);
  const View residual = make(rows * columns, 1.0f), gain = make(columns, 1.0f), beta = make(columns, 1.0f);
  const CudaLinearNorm own(problem, CudaLinearNorm::Way::kOwn), apart(problem, CudaLinearNorm::Way::kApart);
  const auto run = [&](const CudaLinearNorm& way, const View& y) {
    way.run({.x = o.x,
             .w = o.w,
             .bias = o.bias,
             .residual = residual,
             .gain = gain,
             .beta = beta,
             .y = y,
             .scratch = o.scratch()},
            stream());
  };
  run(own, o.y);
  run(apart, o.z);
  // The allowed difference is 12 times the usual one, which is meant for sums whose magnitude is about one. The sums of this layer reach a
  // magnitude of six, the fused and the separate kernels round them twice at different points, and the norm multiplies the rounding errors
  // by gains of up to three.
  if (near(o.y, o.z, rows * columns, "a layer with a norm", 12)) {
    const std::vector<double> ms = medians_ms({[&] { run(own, o.y); }, [&] { run(apart, o.z); }});
    std::printf("norm %6lld x %5lld x %5lld: Plimsoll %8.4f ms %6.1f TFLOP/s, separate %8.4f ms (%s), %s\n",
                static_cast<long long>(rows), static_cast<long long>(columns), static_cast<long long>(terms),
                ms[0], gflop(alone) / ms[0], ms[1], apart.description().c_str(),
                linear_norm_takes_own_product(problem) ? "Plimsoll is used" : "separate is used");
    std::fflush(stdout);
  }
  for (const View& view : {residual, gain, beta}) PLIMSOLL_CUDA(cudaFree(view.data));
}

// Computes y = gelu(x w^T + b) v^T + x in chunks of `chunk` rows each, captured in a CUDA graph. All chunks use the same buffer for the
// wide result of the first layer.
class FeedForward {
 public:
  FeedForward(const Operands& wide, const View& v, const View& y, const MatmulProblem& problem, int64_t chunk)
      : gelu_(
            prepare_linear_gelu_cuda({.rows = chunk, .columns = problem.n, .terms = problem.k, .sm = kSm})) {
    MatmulProblem back = product_of(chunk, problem.k, problem.n);
    back.writes = MatmulWrites::kAddend;
    back_ = prepare_matmul_cuda(back, Fp32Products::kF32);
    cudaGraph_t graph = nullptr;
    PLIMSOLL_CUDA(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
    for (int64_t row = 0; row < problem.m; row += chunk) {
      const View x = part(wide.x, row * problem.k);
      gelu_->run({.a = x, .b = wide.w, .bias = wide.bias, .c = wide.y, .scratch = wide.scratch()}, nullptr,
                 stream());
      back_->run({.a = wide.y,
                  .b = v,
                  .bias = {},
                  .c = part(y, row * problem.k),
                  .addend = x,
                  .scratch = wide.scratch()},
                 nullptr, stream());
    }
    PLIMSOLL_CUDA(cudaStreamEndCapture(stream(), &graph));
    PLIMSOLL_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    PLIMSOLL_CUDA(cudaGraphDestroy(graph));
  }
  ~FeedForward() { static_cast<void>(cudaGraphExecDestroy(graph_)); }
  FeedForward(const FeedForward&) = delete;
  FeedForward& operator=(const FeedForward&) = delete;
  void run() const { PLIMSOLL_CUDA(cudaGraphLaunch(graph_, stream())); }

 private:
  static View part(const View& view, int64_t first) {
    return {static_cast<uint16_t*>(view.data) + first, view.dtype};
  }
  std::unique_ptr<CudaMatmul> gelu_;
  std::unique_ptr<CudaMatmul> back_;
  cudaGraphExec_t graph_ = nullptr;
};

void chunks(int64_t rows, int64_t columns, int64_t terms) {
  const MatmulProblem problem = product_of(rows, columns, terms);
  const Operands wide(problem);
  const View v = make(columns * terms, 0.017f), first = make(rows * terms, 1.0f),
             other = make(rows * terms, 1.0f);
  std::vector<std::unique_ptr<FeedForward>> ways;
  std::vector<std::function<void()>> calls;
  const std::vector<int64_t> sizes{rows, rows / 2, rows / 4, rows / 8};
  for (const int64_t chunk : sizes) {
    const View& y = ways.empty() ? first : other;
    ways.push_back(std::make_unique<FeedForward>(wide, v, y, problem, chunk));
    ways.back()->run();
    if (!near(y, first, rows * terms, "layers in chunks")) return;
    calls.emplace_back([way = ways.back().get()] { way->run(); });
  }
  const std::vector<double> ms = medians_ms(calls);
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::printf("feed-forward %lld x %lld x %lld in chunks of %6lld rows: %8.4f ms %6.1f TFLOP/s\n",
                static_cast<long long>(rows), static_cast<long long>(terms), static_cast<long long>(columns),
                static_cast<long long>(sizes[i]), ms[i], 2 * gflop(problem) / ms[i]);
  }
  std::fflush(stdout);
  for (const View& view : {v, first, other}) PLIMSOLL_CUDA(cudaFree(view.data));
}

// Captures one call of `product` for each copy of the weights in a CUDA graph, and returns the executable graph.
cudaGraphExec_t capture_calls(CudaMatmul& product, const Operands& operands, const View& y,
                              const std::vector<View>& weights) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  PLIMSOLL_CUDA(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeRelaxed));
  for (const View& w : weights) {
    product.run({.a = operands.x, .b = w, .bias = {}, .c = y, .scratch = operands.scratch()}, nullptr,
                stream());
  }
  PLIMSOLL_CUDA(cudaStreamEndCapture(stream(), &graph));
  PLIMSOLL_CUDA(cudaGraphInstantiate(&made, graph, 0));
  PLIMSOLL_CUDA(cudaGraphDestroy(graph));
  return made;
}

void few_rows(int64_t rows, int64_t columns, int64_t terms) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const MatmulProblem problem = product_of(rows, columns, terms);
  const Operands operands(problem);
  const int64_t copies = std::clamp<int64_t>(kBytes / (columns * terms * 2), 1, 24);
  std::vector<View> weights{operands.w};
  for (int64_t i = 1; i < copies; ++i) weights.push_back(make(columns * terms, 0.035f));
  const std::vector<std::shared_ptr<CudaMatmul>> products{
      prepare_matmul_cuda(problem, Fp32Products::kF32),
      prepare_few_rows_matmul_cuda(problem, SecondOperand::kVariable),
      prepare_few_rows_matmul_cuda(problem, SecondOperand::kConstant)};
  const std::vector<const char*> names{"cuBLASLt", "own", "own, early"};
  std::vector<cudaGraphExec_t> graphs;
  std::vector<std::function<void()>> calls;
  for (const auto& product : products) {
    graphs.push_back(capture_calls(*product, operands, graphs.empty() ? operands.y : operands.z, weights));
    calls.emplace_back([graph = graphs.back()] { PLIMSOLL_CUDA(cudaGraphLaunch(graph, stream())); });
    calls.back()();
    if (!near(operands.y, graphs.size() == 1 ? operands.y : operands.z, rows * columns, "few rows")) return;
  }
  const std::vector<double> ms = medians_ms(calls);
  for (size_t i = 0; i < ms.size(); ++i) {
    const double us = ms[i] * 1e3 / static_cast<double>(copies);
    std::printf("few rows %2lld x %5lld x %6lld %-10s %8.2f us %5.0f GB/s\n", static_cast<long long>(rows),
                static_cast<long long>(terms), static_cast<long long>(columns), names[i], us,
                static_cast<double>(columns * terms * 2) / us * 1e-3);
    PLIMSOLL_CUDA(cudaGraphExecDestroy(graphs[i]));
  }
  std::fflush(stdout);
  for (size_t i = 1; i < weights.size(); ++i) PLIMSOLL_CUDA(cudaFree(weights[i].data));
}

}  // namespace
}  // namespace plimsoll

int main(int count, char** words) {
  const auto asked = [&](const char* part) {
    return count < 2 ||
           std::any_of(words + 1, words + count, [&](const char* word) { return std::string(word) == part; });
  };
  cudaDeviceProp card{};
  PLIMSOLL_CUDA(cudaGetDeviceProperties(&card, 0));
  std::printf("device %s\n", card.name);
  const std::vector<int64_t> rows_of_gelu{32768, 8192, 2304, 2048, 1024};
  using plimsoll::Added;
  if (asked("bias")) {
    for (const int64_t rows : {int64_t{32768}, int64_t{16384}}) {
      for (const int64_t columns : {int64_t{3072}, int64_t{1024}, int64_t{4096}})
        plimsoll::layer(Added::kBias, rows, columns, 1024);
    }
    plimsoll::layer(Added::kBias, 32768, 2304, 768);
    plimsoll::layer(Added::kBias, 32768, 1024, 4096);
    for (const int64_t rows : {int64_t{8192}, int64_t{4096}, int64_t{2048}, int64_t{1280}, int64_t{512}})
      plimsoll::layer(Added::kBias, rows, 3072, 1024);
  }
  if (asked("addend")) {
    for (const int64_t terms : {int64_t{1024}, int64_t{4096}}) {
      plimsoll::layer(Added::kAddendInPlace, 32768, 1024, terms);
      for (const int64_t rows : {int64_t{32768}, int64_t{16384}, int64_t{4096}})
        plimsoll::layer(Added::kAddend, rows, 1024, terms);
    }
  }
  if (asked("plain")) {
    for (const int64_t rows : {int64_t{16384}, int64_t{4096}}) {
      plimsoll::layer(Added::kNothing, rows, 1024, 1024);
      plimsoll::layer(Added::kNothing, rows, 4096, 1024);
      plimsoll::layer(Added::kNothing, rows, 1024, 4096);
    }
  }
  if (asked("norm")) {
    for (const int64_t rows : {int64_t{32768}, int64_t{16384}, int64_t{8192}, int64_t{4096}, int64_t{2048}}) {
      plimsoll::norm(rows, 1024, 1024);
      plimsoll::norm(rows, 1024, 4096);
      plimsoll::norm(rows, 768, 768);
      plimsoll::norm(rows, 768, 3072);
    }
  }
  if (asked("few")) {
    for (const int64_t rows : {int64_t{1}, int64_t{8}, int64_t{32}}) {
      for (const auto& [columns, terms] : {std::pair<int64_t, int64_t>{3072, 2048},
                                           {2048, 2048},
                                           {16384, 2048},
                                           {2048, 8192},
                                           {128256, 2048},
                                           {2304, 768},
                                           {768, 768},
                                           {3072, 768},
                                           {768, 3072},
                                           {50257, 768}})
        plimsoll::few_rows(rows, columns, terms);
    }
  }
  if (asked("chunks")) plimsoll::chunks(32768, 4096, 1024);
  if (asked("gelu")) {
    for (const int64_t rows : rows_of_gelu) {
      plimsoll::gelu(rows, 4096, 1024);
      plimsoll::gelu(rows, 3072, 768);
    }
  }
  return 0;
}
