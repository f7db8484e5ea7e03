// Lists the rows that the tests of this executable run (tests/support/kernel_rows.h).
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
