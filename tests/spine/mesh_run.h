// Steps of a tiny model on a mesh of ranks, which are threads of this process, and what one rank computes instead: for tests that compare
// them. An object belongs to one test; the functions start and end their own threads.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/rank_mesh.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll::testing {

inline constexpr int kMeshSteps = 3;
inline constexpr double kMeshRate = 0.1;  // the learning rate

// How a run is divided among ranks, and the order in which they work.
struct MeshCase {
  RankMesh mesh = {};
  bool sequence_parallel = false;
  bool rounds_buckets = false;  // also without divided rows, buckets have as many tokens as with them
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int64_t chunks = 1;
  std::vector<int64_t> first_blocks = {};
  ZeroStage zero_stage = ZeroStage::kNone;
  bool keeps_gathered = false;
  int64_t bucket_bytes = 2048;
  bool late = false;  // ops of queues run as late as the plan allows
};

using Tensors = std::map<std::string, std::vector<double>>;

// The results of a rank after some steps.
struct MeshResult {
  std::vector<double>
      losses;  // on the last stage: the losses of the micro-batches of its data-parallel group
  std::vector<double> norms;
  Tensors tensors;  // weights and states of the whole model
  double evaluation_loss = 0;
  std::vector<double> logits;
};

// Calls `work` once per rank of a mesh, each in its own thread, and waits for all.
void run_on_mesh(const RankMesh& mesh, const std::function<void(int, const RankConnections&)>& work);

// Returns the plan of a rank for steps of `batches` micro-batches of all ranks.
Plan plan_of_rank(TinyCase test, const MeshCase& ranks, int rank, int64_t batches);

// Returns the lengths of the sequences of a micro-batch. Micro-batches differ in size, so that they run in different buckets.
std::vector<int> mesh_lengths(int64_t number);

struct MeshStart {
  double perturbation =
      0.0;  // the relative change of each weight that is not quantized, whose sign is random
  uint32_t seed = 0;
  const Tensors* tensors =
      nullptr;  // if not null, the weights and states of another run, which this run continues
  int first_step = 1;
};

// Sets the states to zero, and weights to numbers that depend on their names, because stages of a pipeline have them in other orders.
void fill_by_name(Executor& executor, const MeshStart& start = {});

// Runs the steps from `start` on, and an evaluation. The peak of each rank's arena has to be that of its plan.
std::vector<MeshResult> results_of(const TinyCase& test, const MeshCase& ranks, int64_t batches,
                                   const MeshStart& start = {}, int last_step = kMeshSteps);
// Returns the results of a mesh as one rank would have them: its losses in the order of the micro-batches.
MeshResult joined(const std::vector<MeshResult>& results, const RankMesh& mesh);

// Expects that all ranks have the same norms, weights and states, bit for bit.
void expect_equal_ranks(const std::vector<MeshResult>& results);

// The numbers that one rank computes in fp64 with the reference kernels, and bounds of the differences that an order of summation may
// make.
class ExpectedSteps {
 public:
  // Two orders of summation differ only by their roundings, which are taken as independent with mean zero (Higham and Mary, "A new
  // approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019). A sum of n products is then the exact sum
  // for factors whose relative changes have a standard deviation of at most sqrt(n) u. Here n is at most twice the largest inner size,
  // 3 times the hidden size: the sums over groups of ranks and over micro-batches have fewer terms than that.
  //
  // The effect of changes of all weights is measured. It is linear for changes of 2^-30, whose signs are random: the largest of 4
  // such effects is at least a third of their standard deviation, except with a probability of erf(1 / (3 sqrt(2)))^4 = 0.5 %. The
  // products with weights round separately in the forward and the backward pass of each step and in the evaluation, and so do the
  // products of activations in attention, as often and with effects as large. These effects, of both orders, are independent, so
  // that their variances are added. A sum of random signs exceeds 7 standard deviations with a probability of at most
  // 2 exp(-7^2 / 2) = 5e-11 (Hoeffding).
  ExpectedSteps(const TinyCase& test, int64_t batches);

  // Compares the joined results of a mesh. Returns the largest difference, as a share of its bound.
  double check(const MeshResult& found) const;

  MeshResult result;

 private:
  std::map<std::string, double> bounds_;
};

}  // namespace plimsoll::testing
