// Lists the rows that the tests of this executable run (tests/support/kernel_rows.h).
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

#define PLIMSOLL_KERNEL PLIMSOLL_CPU_FUNCTION
#define PLIMSOLL_PREPARED_KERNEL PLIMSOLL_NO_FUNCTION
const TestedRows kTestedRows{{
#include "kernels/optimizer/optimizer_catalog.inc"
}};
#undef PLIMSOLL_PREPARED_KERNEL
#undef PLIMSOLL_KERNEL

}  // namespace
}  // namespace plimsoll::test
