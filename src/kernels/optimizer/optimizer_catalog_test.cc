// Lists the functions that the CPU rows of optimizer_catalog.inc name. The tests of this executable run them, and a row that no test runs
// is an error (tests/support/kernel_rows.h).
#include "kernels/optimizer/adafactor.h"
#include "kernels/optimizer/adagrad.h"
#include "kernels/optimizer/adamw.h"
#include "kernels/optimizer/global_norm.h"
#include "kernels/optimizer/lion.h"
#include "kernels/optimizer/loss_scale.h"
#include "kernels/optimizer/sgd.h"
#include "kernels/optimizer/tensor_scan.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/optimizer/optimizer_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
