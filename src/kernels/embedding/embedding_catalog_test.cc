// Lists the implementations in the kernel catalog that the tests in this executable cover (tests/support/kernel_rows.h).
#include "kernels/embedding/embedding.h"
#include "kernels/embedding/first_token.h"
#include "kernels/embedding/rope.h"
#include "kernels/embedding/sequence_mean.h"
#include "kernels/embedding/sort_ids.h"
#include "tests/support/kernel_rows.h"

namespace plimsoll::test {
namespace {

#define PLIMSOLL_ROWS "kernels/embedding/embedding_catalog.inc"
const TestedRows kTestedRows{{
#include "kernels/catalog/cpu_functions.inc"
}};

}  // namespace
}  // namespace plimsoll::test
