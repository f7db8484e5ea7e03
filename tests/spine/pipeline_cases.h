// Models that the tests of pipelines train, and functions that compare the results. Pure functions.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/spine/mesh_run.h"

namespace plimsoll::testing {

inline void expect_same_bits(const Tensors& found, const Tensors& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, values] : wanted) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == values) << name;
  }
}

// Returns a classifier. Like all cases here, it runs in fp64 with the reference kernels: another order of
// summation then changes results only in their last digits, so that a wrong element is clearly visible.
inline TinyCase classifier() {
  return {
      .dtype = DType::kF64,
      .optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .momentum = 0.9, .max_grad_norm = 0.0},
      .reference_kernels = true,
      .layers = 4};
}
inline TinyCase language_model(const std::string& model_type) {
  TinyCase test = classifier();
  test.model_type = model_type;
  test.problem_type = ProblemType::kCausalLm;
  return test;
}

// Expects that the stages of a pipeline computed the same bits as one rank. Loss and logits are those of the
// last stage. The gradient norm must be the same on every stage; compared to one rank it may differ by
// rounding, because its terms are added in another order.
inline void expect_bits_of_one_rank(const std::vector<MeshResult>& results, const MeshResult& expected) {
  for (const MeshResult& result : results) {
    expect_same_bits(result.tensors, expected.tensors);
    EXPECT_EQ(result.norms, results.front().norms);
    ASSERT_EQ(result.norms.size(), expected.norms.size());
    for (size_t i = 0; i < result.norms.size(); ++i) {
      EXPECT_NEAR(result.norms[i], expected.norms[i],
                  20'000 * unit_roundoff(DType::kF64) * expected.norms[i]);
    }
  }
  EXPECT_EQ(results.back().losses, expected.losses);
  EXPECT_EQ(results.back().evaluation_loss, expected.evaluation_loss);
  EXPECT_EQ(results.back().logits, expected.logits);
}

inline MeshResult result_alone(const TinyCase& test, int64_t batches) {
  return results_of(test, {}, batches).front();
}

// A test case, and its name for the messages of failed tests.
struct NamedCase {
  std::string name;
  TinyCase test;
};

// Returns cases in which a pipeline need not have the same bits as one rank, because it adds terms in another
// order: embedding and head share a table, gradients are clipped by their norm, a boundary between stages
// separates ops that are otherwise fused, or data-parallel ranks add their gradients.
inline std::vector<NamedCase> pipeline_cases() {
  TinyCase gpt2 = language_model("gpt2");
  std::vector<NamedCase> list{{"gpt2", gpt2}};
  gpt2.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  list.push_back({"gpt2, AdamW, clipping", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kFull;
  list.push_back({"gpt2, full recomputation", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kNone;
  gpt2.chunked_loss = ChunkedLoss::kAlways;
  list.push_back({"gpt2, chunked loss", gpt2});
  TinyCase llama = language_model("llama");
  llama.hidden_act = "silu";
  llama.decoder.num_key_value_heads = 2;
  list.push_back({"llama", llama});
  llama.tied = false;
  list.push_back({"llama, untied", llama});
  TinyCase masked = classifier();
  masked.problem_type = ProblemType::kMaskedLm;
  masked.label_share = 0.4;
  list.push_back({"bert, masked", masked});
  TinyCase modern = classifier();
  modern.model_type = "modernbert";
  modern.dropout = 0.0;
  list.push_back({"modernbert", modern});
  return list;
}

}  // namespace plimsoll::testing
