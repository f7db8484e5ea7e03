// Lists the rows that the tests of this executable run (tests/support/kernel_rows.h).
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/layer_norm/rms_norm.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_KERNEL PLIMSOLL_CPU_FUNCTION
#define PLIMSOLL_PREPARED_KERNEL PLIMSOLL_NO_FUNCTION
const TestedRows kTestedRows{{
#include "kernels/layer_norm/layer_norm_catalog.inc"
}};
#undef PLIMSOLL_PREPARED_KERNEL
#undef PLIMSOLL_KERNEL

}  // namespace
}  // namespace plimsoll::test
