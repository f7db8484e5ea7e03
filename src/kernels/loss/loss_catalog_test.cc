// Lists the implementations in the kernel catalog that the tests in this executable cover (tests/support/kernel_rows.h).
#include "kernels/loss/bce_with_logits.h"
#include "kernels/loss/count_correct.h"
#include "kernels/loss/linear_cross_entropy.h"
#include "kernels/loss/mse.h"
#include "kernels/loss/nll.h"
#include "kernels/loss/softmax.h"
#include "kernels/loss/softmax_cross_entropy.h"
#include "kernels/loss/top_logits.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/loss/loss_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
