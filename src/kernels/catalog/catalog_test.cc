#include "kernels/catalog/catalog.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

Problem matmul_problem(DType dtype, CpuIsa isa) {
  return {.kernel = "matmul",
          .dtype = dtype,
          .target = {.num_threads = 2, .isa = isa},
          .family = MatmulProblem{
              .m = 8, .n = 16, .k = 32, .a = dtype, .b = dtype, .c = dtype, .num_threads = 2, .isa = isa}};
}

TEST(Catalog, NamesAreUniqueAndSayKernelAndBackend) {
  std::set<std::string_view> names;
  ASSERT_FALSE(kernel_rows().empty());
  for (const KernelRow& row : kernel_rows()) {
    EXPECT_TRUE(names.insert(row.implementation).second) << row.implementation << " twice";
    const std::string prefix = std::string(row.kernel) + "_" + std::string(backend_name(row.backend));
    EXPECT_TRUE(row.implementation.starts_with(prefix))
        << row.implementation << " does not start with " << prefix;
    EXPECT_NE(row.dtypes.bits, 0u) << row.implementation;
    EXPECT_NE(row.support, nullptr) << row.implementation;
    EXPECT_NE(row.scratch_bytes, nullptr) << row.implementation;
    EXPECT_NE(row.library_bytes, nullptr) << row.implementation;
    EXPECT_EQ(find_kernel_row(row.implementation), &row);
  }
}

TEST(Catalog, EveryKernelHasOneReferenceAndItIsTheLastOnTheCpu) {
  for (const KernelRow& row : kernel_rows()) {
    int num_references = 0;
    for (const KernelRow* candidate : kernel_rows_of(row.kernel)) {
      EXPECT_FALSE(num_references > 0 && candidate->backend == Backend::kCpu)
          << candidate->implementation << " comes after the reference";
      num_references += candidate->backend == Backend::kRef ? 1 : 0;
    }
    EXPECT_EQ(num_references, 1) << row.kernel;
  }
}

TEST(Catalog, EveryReferenceTakesDoubles) {
  for (const KernelRow& row : kernel_rows()) {
    EXPECT_TRUE(row.backend != Backend::kRef || row.dtypes.has(DType::kF64)) << row.implementation;
  }
}

TEST(Catalog, SelectsTheFirstRowThatAccepts) {
  const Selection selection = select_kernel(matmul_problem(DType::kF32, CpuIsa::kAvx512));
  ASSERT_NE(selection.row, nullptr);
  EXPECT_EQ(selection.row->implementation, "matmul_cpu_onednn");
  ASSERT_EQ(selection.refused.size(), 1u);
  EXPECT_EQ(selection.refused[0].reason, "needs AMX, but this CPU has avx512");
}

TEST(Catalog, SaysWhyRowsRefuse) {
  const Selection doubles = select_kernel(matmul_problem(DType::kF64, CpuIsa::kAvx512));
  ASSERT_NE(doubles.row, nullptr);
  EXPECT_EQ(doubles.row->implementation, "matmul_ref");
  ASSERT_EQ(doubles.refused.size(), 2u);
  EXPECT_EQ(doubles.refused[1].row->implementation, "matmul_cpu_onednn");
  EXPECT_EQ(doubles.refused[1].reason, "does not support f64");

  const Selection bf16 = select_kernel(matmul_problem(DType::kBF16, CpuIsa::kAvx2));
  ASSERT_EQ(bf16.refused.size(), 2u);
  EXPECT_NE(bf16.refused[1].reason.find("AVX512_BF16"), std::string::npos) << bf16.refused[1].reason;
  EXPECT_EQ(select_kernel(matmul_problem(DType::kBF16, CpuIsa::kAmx)).row->implementation,
            "matmul_cpu_onednn");
}

TEST(Catalog, AForcedRowIsTheOnlyOneAsked) {
  const Problem problem = matmul_problem(DType::kF32, CpuIsa::kAvx512);
  EXPECT_EQ(select_kernel(problem, "matmul_ref").row->implementation, "matmul_ref");
  const Selection refused = select_kernel(matmul_problem(DType::kF64, CpuIsa::kAvx512), "matmul_cpu_onednn");
  EXPECT_EQ(refused.row, nullptr);
  ASSERT_EQ(refused.refused.size(), 1u);
}

TEST(Catalog, AnUnknownForcedNameIsAUsageErrorThatListsTheChoices) {
  try {
    select_kernel(matmul_problem(DType::kF32, CpuIsa::kAvx512), "matmul_gpu");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("matmul_cpu_amx, matmul_cpu_onednn, matmul_ref"),
              std::string::npos)
        << error.what();
  }
}

TEST(Catalog, AProblemOfAnotherFamilyIsAnInternalError) {
  Problem problem = matmul_problem(DType::kF32, CpuIsa::kAvx512);
  problem.family = RowsProblem{.rows = 8, .columns = 16};
  try {
    select_kernel(problem);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
}

TEST(Catalog, RowsForAGpuAskTheirOwnScratchAndSayWhyTheyDecline) {
  const auto ask = [](std::string_view kernel, const FamilyProblem& family) {
    return select_kernel({.kernel = kernel,
                          .dtype = DType::kBF16,
                          .target = {.device = KernelDevice::kCuda},
                          .family = family});
  };
  const RowsProblem rows{.rows = 100, .columns = 8};
  const Selection norm = ask("bias_dropout_residual_norm_bwd", rows);
  ASSERT_NE(norm.row, nullptr);
  EXPECT_EQ(norm.row->implementation, "bias_dropout_residual_norm_bwd_cuda");
  EXPECT_EQ(norm.scratch_bytes, norm_bwd_cuda_scratch_bytes(100, 8));
  EXPECT_EQ(ask("bias_grad", rows).scratch_bytes, column_sums_cuda_scratch_bytes(100, 8, 1));
  EXPECT_EQ(ask("scale_shift_bwd", rows).scratch_bytes, column_sums_cuda_scratch_bytes(100, 8, 2));
  EXPECT_EQ(ask("embedding_bwd", EmbeddingProblem{.tokens = 100, .columns = 8}).scratch_bytes,
            embedding_bwd_cuda_scratch_bytes(100, 8));
  EXPECT_EQ(ask("softmax_cross_entropy_fwd", rows).scratch_bytes, row_loss_cuda_scratch_bytes(100));
  const Selection wide = ask("normalize_fwd", RowsProblem{.rows = 1, .columns = kMaxNormCudaColumns + 1});
  EXPECT_EQ(wide.row, nullptr);
  ASSERT_EQ(wide.refused.size(), 1u);
  EXPECT_NE(wide.refused[0].reason.find("registers"), std::string::npos) << wide.refused[0].reason;
}

TEST(Catalog, TheMatrixHasEveryKernelOnceForEachTypeAndDevice) {
  std::set<std::string> seen;
  for (const KernelMatrixEntry& entry : kernel_matrix()) {
    std::string key(entry.kernel);
    key += kernel_device_name(entry.device);
    key += dtype_name(entry.dtype);
    EXPECT_TRUE(seen.insert(key).second) << key;
    if (entry.kernel == "matmul" && entry.device == KernelDevice::kCpu && entry.dtype == DType::kF32) {
      EXPECT_EQ(entry.implementations,
                (std::vector<std::string_view>{"matmul_cpu_amx", "matmul_cpu_onednn", "matmul_ref"}));
    }
  }
  EXPECT_TRUE(seen.contains("matmulcudabf16"));
  EXPECT_NE(kernel_matrix_markdown().find("| matmul | matmul_ref | matmul_cpu_amx | matmul_cpu_onednn |"),
            std::string::npos)
      << kernel_matrix_markdown();
}

// docs/KERNELS.md must agree with the catalog. The test generates the document into the build folder and compares the two files.
TEST(Catalog, ThePageOfKernelsIsCurrent) {
  const std::string fresh =
      "# Kernels\n\nThis page is generated from the catalog of kernels, and a test fails when it is stale. "
      "To write it "
      "anew, run\n`ctest -R kernels_catalog_test` in the build directory and copy `KERNELS.md` from there "
      "over this "
      "file.\n\nFor every kernel, type and kind of device: the implementation that is tried first, `-` where "
      "there is none. "
      "One that declines a\nshape or a machine gives way to the next, down to the plain reference; `plimsoll "
      "plan --why` "
      "says which ran and why.\n\n" +
      kernel_matrix_markdown();
  std::ofstream(std::string(PLIMSOLL_BINARY_DIR) + "/KERNELS.md") << fresh;
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/docs/KERNELS.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_TRUE(page == fresh) << "docs/KERNELS.md is stale: cp " << PLIMSOLL_BINARY_DIR << "/KERNELS.md "
                             << PLIMSOLL_SOURCE_DIR << "/docs/KERNELS.md";
}

}  // namespace
}  // namespace plimsoll
