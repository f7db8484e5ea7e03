#include <dnnl_debug.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/onednn_facts.h"
#include "kernels/matmul/onednn_shim.h"
#include "kernels/matmul/pack_pairs.h"

namespace plimsoll {
namespace {

using Desc = dnnl::memory::desc;

// oneDNN chooses a layout of packed B for a given number of rows. Plimsoll always asks for this number of rows instead of m, so that
// products with any number of rows can share one packed copy of B.
constexpr int64_t kRowsThatChooseTheLayout = 1024;

dnnl::memory::data_type library_type(DType dtype) {
  PLIMSOLL_CHECK(dtype == DType::kF32 || dtype == DType::kBF16,
                 "matrix products through oneDNN support f32 and bf16, not {}", dtype_name(dtype));
  return dtype == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

// Describes a dense row-major matrix [rows, columns] to oneDNN, or the transpose of a matrix that is stored as [columns, rows].
Desc matrix_desc(int64_t rows, int64_t columns, DType dtype, Transpose transpose) {
  const dnnl::memory::dims strides =
      transpose == Transpose::kNo ? dnnl::memory::dims{columns, 1} : dnnl::memory::dims{1, rows};
  return {{rows, columns}, library_type(dtype), strides};
}

dnnl::primitive_attr attributes(Accumulate accumulate) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Without this setting, the environment variable ONEDNN_DEFAULT_FPMATH_MODE would let oneDNN round fp32 operands to bf16 if that is
  // faster.
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  if (accumulate == Accumulate::kAdd) {
    dnnl::post_ops add_old;
    add_old.append_sum(1.0f);
    attr.set_post_ops(add_old);
  }
  return attr;
}

// One of the variants of the product that are tried: the layout of B that oneDNN reads, and the number of threads that it may use.
struct Way {
  Desc b;
  int threads = 1;
};

struct Descriptions {
  std::optional<dnnl::matmul::primitive_desc> overwrite;
  std::optional<dnnl::matmul::primitive_desc> add;
  int64_t workspace_bytes = 0;
};

// States which of oneDNN's implementations are acceptable. kAny includes its reference implementation, which is correct but slower by
// orders of magnitude.
enum class Speed : uint8_t { kFast, kAny };
Speed speed_of(const dnnl::matmul::primitive_desc& description) {
  const bool is_reference =
      std::string_view(description.impl_info_str()).find("ref") != std::string_view::npos;
  return is_reference ? Speed::kAny : Speed::kFast;
}

// If `desc` is a layout of bf16 B in tiles of pairs of terms, which pack_pairs.h can write, returns the tile sizes and strides. Returns
// nothing for other layouts.
std::optional<PairTiles> pair_tiles_of(const Desc& desc) {
  const std::optional<onednn::Blocks> blocks = onednn::blocks_of(desc);
  if (!blocks || blocks->count != 3) return std::nullopt;
  const auto [pairs, columns, pair] = blocks->sizes;
  const bool are_pairs = pairs == kPairTileTerms / 2 && pair == 2 && columns % 16 == 0 && columns <= 64 &&
                         blocks->dimensions == std::array<int64_t, 3>{0, 1, 0};
  if (!are_pairs) return std::nullopt;
  return PairTiles{columns, blocks->strides[0], blocks->strides[1]};
}

class OnednnMatmul final : public PreparedMatmul {
 public:
  explicit OnednnMatmul(const MatmulProblem& problem);
  void run(const MatmulArgs& args) override;
  void pack_b(ConstView plain_b, std::span<std::byte> packed, std::span<std::byte> scratch) override;
  std::string description() const override;

 private:
  // Returns oneDNN's descriptions of the product for a layout of B and a number of threads (`way`). Returns nothing if oneDNN does not
  // support these, if its implementation is slower than `least` accepts, or if it needs more than `budget` bytes.
  std::optional<Descriptions> describe(const Way& way, int64_t budget, Speed least) const;
  dnnl::matmul::primitive_desc describe_one(const Desc& b, int64_t rows, Accumulate accumulate) const;
  std::vector<Way> ways() const;
  void build(const Way& way, const Descriptions& descriptions);
  void build_packing(const Way& way, int64_t budget);
  void execute_packing(const void* plain, void* packed, void* workspace);

  MatmulProblem problem_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Desc plain_b_;
  bool packs_ = false;
  std::string description_;
  dnnl::matmul overwrite_, add_;
  dnnl::reorder packing_;
  std::optional<PairTiles> pair_tiles_;  // set if pack_pairs.h packs B instead of oneDNN
  dnnl::memory a_, b_, bias_, c_, workspace_, plain_, packed_, packing_workspace_;
};

OnednnMatmul::OnednnMatmul(const MatmulProblem& problem) : problem_(problem) {
  PLIMSOLL_CHECK(problem.m >= 1 && problem.n >= 1 && problem.k >= 1,
                 "the sizes of a matrix product must be at least 1, but are [{}, {}] and [{}, {}]", problem.m,
                 problem.k, problem.k, problem.n);
  PLIMSOLL_CHECK(problem.b == problem.a || (problem.a == DType::kBF16 && problem.b == DType::kF32),
                 "matrix B must have the type of A, or be f32 if A is bf16, but A is {} and B is {}",
                 dtype_name(problem.a), dtype_name(problem.b));
  PLIMSOLL_CHECK(problem.c == DType::kF32 || problem.c == problem.a,
                 "matrix C must be f32 or have the type of A, but A is {} and C is {}", dtype_name(problem.a),
                 dtype_name(problem.c));
  plain_b_ = matrix_desc(problem.k, problem.n, problem.b, problem.trans_b);
  const int64_t packed_bytes = matmul_packs_b(problem) ? matmul_packed_b_bytes(problem) : 0;
  const int64_t budget = matmul_scratch_bytes(problem) - packed_bytes;
  for (const Speed least : {Speed::kFast, Speed::kAny}) {
    for (const Way& way : ways()) {
      const bool built = onednn::with_library_threads(way.threads, [&] {
        const std::optional<Descriptions> descriptions = describe(way, budget, least);
        if (!descriptions) return false;
        build(way, *descriptions);
        build_packing(way, budget);
        return true;
      });
      if (built) return;
    }
  }
  PLIMSOLL_CHECK(false,
                 "oneDNN has no implementation of the matrix product [{}, {}] x [{}, {}] of {} that works "
                 "within a workspace of {} bytes",
                 problem.m, problem.k, problem.k, problem.n, dtype_name(problem.a), budget);
}

// Returns the layouts and numbers of threads to try, in the order of preference. If B is already packed, only the number of threads varies:
// with fewer threads oneDNN does not divide sums among threads, and needs less workspace.
std::vector<Way> OnednnMatmul::ways() const {
  std::vector<Way> ways;
  const Desc plain = matrix_desc(problem_.k, problem_.n, problem_.a, problem_.trans_b);
  Desc packed = plain;
  if (problem_.b_operand == MatmulOperand::kPacked || matmul_packs_b(problem_)) {
    const Desc any({problem_.k, problem_.n}, library_type(problem_.a), dnnl::memory::format_tag::any);
    const Desc chosen = describe_one(any, kRowsThatChooseTheLayout, Accumulate::kOverwrite).weights_desc();
    if (static_cast<int64_t>(chosen.get_size()) <= matmul_packed_b_bytes(problem_)) packed = chosen;
  }
  for (int threads = std::max(1, problem_.num_threads); threads >= 1; threads /= 2) {
    ways.push_back({packed, threads});
    if (problem_.b_operand == MatmulOperand::kPlain) ways.push_back({plain, threads});
  }
  return ways;
}

dnnl::matmul::primitive_desc OnednnMatmul::describe_one(const Desc& b, int64_t rows,
                                                        Accumulate accumulate) const {
  const Desc a = matrix_desc(rows, problem_.k, problem_.a, problem_.trans_a);
  const Desc c = matrix_desc(rows, problem_.n, problem_.c, Transpose::kNo);
  if (problem_.bias == MatmulBias::kNone) {
    return onednn::describe_matmul(engine_, a, b, nullptr, c, attributes(accumulate));
  }
  const Desc bias = matrix_desc(1, problem_.n, problem_.bias_dtype, Transpose::kNo);
  return onednn::describe_matmul(engine_, a, b, &bias, c, attributes(accumulate));
}

std::optional<Descriptions> OnednnMatmul::describe(const Way& way, int64_t budget, Speed least) const {
  try {
    Descriptions found;
    found.overwrite = describe_one(way.b, problem_.m, Accumulate::kOverwrite);
    found.workspace_bytes = static_cast<int64_t>(found.overwrite->scratchpad_desc().get_size());
    if (problem_.writes == MatmulWrites::kOverwriteOrAdd) {
      found.add = describe_one(way.b, problem_.m, Accumulate::kAdd);
      found.workspace_bytes =
          std::max(found.workspace_bytes, static_cast<int64_t>(found.add->scratchpad_desc().get_size()));
    }
    const bool slow =
        speed_of(*found.overwrite) != Speed::kFast || (found.add && speed_of(*found.add) != Speed::kFast);
    if (slow && least == Speed::kFast) return std::nullopt;
    if (found.workspace_bytes > budget) return std::nullopt;
    return found;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return std::nullopt;
    throw;
  }
}

void OnednnMatmul::build(const Way& way, const Descriptions& descriptions) {
  overwrite_ = dnnl::matmul(*descriptions.overwrite);
  if (descriptions.add) add_ = dnnl::matmul(*descriptions.add);
  packs_ = problem_.b_operand == MatmulOperand::kPlain && way.b != plain_b_;
  const auto empty = [&](const Desc& desc) { return dnnl::memory(desc, engine_, nullptr); };
  a_ = empty(descriptions.overwrite->src_desc());
  b_ = empty(way.b);
  if (problem_.bias == MatmulBias::kRow) bias_ = empty(descriptions.overwrite->bias_desc());
  c_ = empty(descriptions.overwrite->dst_desc());
  workspace_ = empty(descriptions.overwrite->scratchpad_desc());
  description_ = descriptions.overwrite->impl_info_str();
  if (packs_) description_ += ", packs B";
  if (way.threads != problem_.num_threads) description_ += fmt::format(", {} threads", way.threads);
}

void OnednnMatmul::build_packing(const Way& way, int64_t budget) {
  if (!packs_ && problem_.b_operand == MatmulOperand::kPlain) return;
  // If B is fp32, it is packed by pack_pairs.h, because oneDNN's own conversion of fp32 into this layout reaches only half of the memory
  // bandwidth.
  if (problem_.b == DType::kF32 && problem_.a == DType::kBF16) pair_tiles_ = pair_tiles_of(way.b);
  if (pair_tiles_) return;
  plain_ = dnnl::memory(plain_b_, engine_, nullptr);
  packed_ = dnnl::memory(way.b, engine_, nullptr);
  const dnnl::reorder::primitive_desc description(engine_, plain_b_, engine_, way.b,
                                                  attributes(Accumulate::kOverwrite));
  const auto bytes = static_cast<int64_t>(description.scratchpad_desc().get_size());
  PLIMSOLL_CHECK(bytes <= budget,
                 "packing the matrix B of [{}, {}] needs {} bytes of workspace, but the plan has {}",
                 problem_.k, problem_.n, bytes, budget);
  packing_ = dnnl::reorder(description);
  packing_workspace_ = dnnl::memory(description.scratchpad_desc(), engine_, nullptr);
}

void check_status(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    throw_error(ErrorCode::kDevice,
                "oneDNN failed to {} (status {}); run again with --profile to see the shapes", what,
                static_cast<int>(status));
  }
}

// Sets the address of an operand. The memory objects through which oneDNN receives operands are created once; only their addresses change
// between runs.
void point_at(dnnl::memory& memory, const void* address) {
  memory.set_data_handle(const_cast<void*>(address));
}

void OnednnMatmul::execute_packing(const void* plain, void* packed, void* workspace) {
  if (pair_tiles_) {
    pack_pairs_cpu(static_cast<const float*>(plain), problem_.k, problem_.n, problem_.trans_b, *pair_tiles_,
                   static_cast<BF16*>(packed));
    return;
  }
  point_at(plain_, plain);
  point_at(packed_, packed);
  point_at(packing_workspace_, workspace);
  const std::array<dnnl_exec_arg_t, 3> operands = {
      dnnl_exec_arg_t{DNNL_ARG_FROM, plain_.get()}, dnnl_exec_arg_t{DNNL_ARG_TO, packed_.get()},
      dnnl_exec_arg_t{DNNL_ARG_SCRATCHPAD, packing_workspace_.get()}};
  check_status(dnnl_primitive_execute(packing_.get(), stream_.get(), static_cast<int>(operands.size()),
                                      operands.data()),
               "pack an operand of a matrix product");
}

void OnednnMatmul::run(const MatmulArgs& args) {
  check_matmul_args(problem_, args, matmul_scratch_bytes(problem_));
  const bool adds = args.accumulate == Accumulate::kAdd;
  std::byte* workspace = args.scratch.data();
  const void* b = args.b.data;
  if (packs_) {
    std::byte* packed = workspace;
    workspace += matmul_packed_b_bytes(problem_);
    execute_packing(b, packed, workspace);
    b = packed;
  }
  point_at(a_, args.a.data);
  point_at(b_, b);
  point_at(c_, args.c.data);
  point_at(workspace_, workspace);
  std::array<dnnl_exec_arg_t, 5> operands = {
      dnnl_exec_arg_t{DNNL_ARG_SRC, a_.get()}, dnnl_exec_arg_t{DNNL_ARG_WEIGHTS, b_.get()},
      dnnl_exec_arg_t{DNNL_ARG_DST, c_.get()}, dnnl_exec_arg_t{DNNL_ARG_SCRATCHPAD, workspace_.get()}};
  int count = 4;
  if (problem_.bias == MatmulBias::kRow) {
    point_at(bias_, args.bias.data);
    operands[static_cast<size_t>(count++)] = {DNNL_ARG_BIAS, bias_.get()};
  }
  check_status(
      dnnl_primitive_execute((adds ? add_ : overwrite_).get(), stream_.get(), count, operands.data()),
      "multiply matrices");
}

void OnednnMatmul::pack_b(ConstView plain_b, std::span<std::byte> packed, std::span<std::byte> scratch) {
  PLIMSOLL_CHECK(problem_.b_operand == MatmulOperand::kPacked,
                 "matmul_pack_b needs a matrix product that was prepared for a packed matrix B");
  check_matmul_operand(plain_b, problem_.b, "B");
  PLIMSOLL_CHECK(static_cast<int64_t>(packed.size()) >= matmul_packed_b_bytes(problem_),
                 "the packed matrix B needs {} bytes of memory, but has {}", matmul_packed_b_bytes(problem_),
                 packed.size());
  PLIMSOLL_CHECK(static_cast<int64_t>(scratch.size()) >= matmul_scratch_bytes(problem_),
                 "packing the matrix B needs {} bytes of scratch memory, but has {}",
                 matmul_scratch_bytes(problem_), scratch.size());
  execute_packing(plain_b.data, packed.data(), scratch.data());
}

std::string OnednnMatmul::description() const {
  return description_;
}

}  // namespace

std::unique_ptr<PreparedMatmul> prepare_matmul_cpu(const MatmulProblem& problem) {
  PLIMSOLL_CHECK(problem.writes != MatmulWrites::kAddend,
                 "matrix products on a CPU do not support an addend");
  if (matmul_has_few_rows(problem)) return prepare_matmul_few_rows(problem);
  if (problem.cpu_products == CpuProducts::kAmxParts) return prepare_matmul_amx(problem);
  try {
    return std::make_unique<OnednnMatmul>(problem);
  } catch (const dnnl::error& error) {
    throw_error(ErrorCode::kDevice,
                "oneDNN failed to prepare a matrix product of [{}, {}] and [{}, {}] in {}: {}; choose "
                "another precision",
                problem.m, problem.k, problem.k, problem.n, dtype_name(problem.a), error.what());
  }
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string onednn_instruction_set() {
  // oneDNN returns the name with a prefix, such as "cpu_isa_avx2".
  std::string name = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  constexpr std::string_view kPrefix = "cpu_isa_";
  if (name.starts_with(kPrefix)) name.erase(0, kPrefix.size());
  return name;
}

}  // namespace plimsoll
