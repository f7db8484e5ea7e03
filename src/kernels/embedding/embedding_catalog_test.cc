// Lists the functions that the CPU rows of embedding_catalog.inc name. The tests of this executable run them, and a row that no test runs
// is an error (tests/support/kernel_rows.h).
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
