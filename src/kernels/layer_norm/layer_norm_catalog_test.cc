// Lists the functions that the CPU rows of layer_norm_catalog.inc name. The tests of this executable run them, and a row that no test runs
// is an error (tests/support/kernel_rows.h).
#include "kernels/layer_norm/bias_dropout_residual_norm.h"
#include "kernels/layer_norm/normalize.h"
#include "kernels/layer_norm/rms_norm.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/layer_norm/layer_norm_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
