// Trains a tiny model on a mesh of ranks, which are threads of this process, and on one rank, so that tests can
// compare the results. An object belongs to one test; the functions start and join their own threads.
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

// Describes how a run is divided among ranks, and the order in which the ranks work.
struct MeshCase {
  RankMesh mesh = {};
  bool sequence_parallel = false;
  bool context_parallel = false;  // the ranks of the tensor axis divide rows (tokens) instead of weights
  bool rounds_buckets = false;    // rounds token numbers up even without sequence parallelism
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  int64_t chunks = 1;
  std::vector<int64_t> first_blocks = {};
  ZeroStage zero_stage = ZeroStage::kNone;
  bool keeps_gathered = false;
  int64_t bucket_bytes = 2048;
  bool late = false;  // if true, copies and communication between ranks run as late as the plan allows
};

using Tensors = std::map<std::string, std::vector<double>>;

// The results of one rank after some steps.
struct MeshResult {
  // only on the last pipeline stage: the losses of all micro-batches of the rank's data-parallel group
  std::vector<double> losses;
  std::vector<double> norms;
  Tensors tensors;  // all weights and optimizer states of the model, by name, as whole tensors
  double evaluation_loss = 0;
  std::vector<double> logits;
};

// Calls `work` once per rank of a mesh, each in a thread of its own, and waits for all threads.
void run_on_mesh(const RankMesh& mesh, const std::function<void(int, const RankConnections&)>& work);

// Returns the plan of one rank. All ranks together run `batches` micro-batches per step.
Plan plan_of_rank(TinyCase test, const MeshCase& ranks, int rank, int64_t batches);

// Returns the lengths of the sequences of micro-batch `number`. They differ between micro-batches, and so do the padded sizes.
std::vector<int> mesh_lengths(int64_t number);

struct MeshStart {
  // Before the run, each weight that is not quantized is multiplied by 1 + perturbation or 1 - perturbation, chosen at random.
  double perturbation = 0.0;
  uint32_t seed = 0;
  // weights and states of another run, which this run continues; null for a new run
  const Tensors* tensors = nullptr;
  int first_step = 1;
};

// Sets the optimizer states to zero, and each weight to numbers that depend on its name. If they depended on the order of the
// weights, pipeline stages would get other numbers than one rank, because each stage has only some of the weights.
void fill_by_name(Executor& executor, const MeshStart& start = {});

// Makes the steps after `start` on all ranks, followed by an evaluation, and returns the results of each rank. Checks that no rank used
// more of the arena than its plan states, and that every rank used all of it, except ranks whose ZeRO slices may be smaller than planned.
std::vector<MeshResult> results_of(const TinyCase& test, const MeshCase& ranks, int64_t batches,
                                   const MeshStart& start = {}, int last_step = kMeshSteps);
// Joins the results of all ranks into the result that one rank would have. The losses are in the order of the micro-batches.
MeshResult joined(const std::vector<MeshResult>& results, const RankMesh& mesh);

// Expects that all ranks have the same norms, weights and states, bit for bit.
void expect_equal_ranks(const std::vector<MeshResult>& results);

// The results of a single rank, computed in fp64 with the reference kernels, and for each result a bound for
// the difference that another order of summation may cause.
class ExpectedSteps {
 public:
  // The bounds are derived as follows. Two orders of summation differ only by their roundings, which are
  // assumed to be independent with mean zero (Higham and Mary, "A new approach to probabilistic rounding error
  // analysis", SIAM J. Sci. Comput. 41, 2019). A computed sum of n products is then the exact sum of products
  // whose factors have relative changes with a standard deviation of at most sqrt(n) u. Here n is at most twice
  // the largest inner dimension of a product, which is 3 times the hidden size: the sums over groups of ranks and
  // over micro-batches have fewer terms than that.
  //
  // The effect of such changes on the results is measured by changing all weights by a relative 2^-30 with
  // random signs, for which the effect is linear. This is done 4 times. The largest of the 4 effects is at
  // least a third of their standard deviation, except with a probability of erf(1 / (3 sqrt(2)))^4 = 0.5 %. The
  // products with weights round separately in the forward and the backward pass of each step and in the
  // evaluation. The products of activations in attention round as often and with effects as large. These
  // effects, of both orders, are independent, so their variances are added. A sum of random signs exceeds 7
  // standard deviations with a probability of at most 2 exp(-7^2 / 2) = 5e-11 (Hoeffding).
  ExpectedSteps(const TinyCase& test, int64_t batches);

  // Compares the joined results of a mesh with the bounds. Returns the largest difference, as a fraction of
  // its bound.
  double check(const MeshResult& found) const;

  MeshResult result;

 private:
  std::map<std::string, double> bounds_;
};

}  // namespace plimsoll::testing
