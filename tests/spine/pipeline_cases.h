// The models that the tests of pipelines run, and comparisons of their results. Pure functions.
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

// All cases are in fp64 and use the reference kernels, so that an element that is wrong differs by many orders of magnitude more than
// one whose terms were added in another order.
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

inline MeshResult result_alone(const TinyCase& test, int64_t batches) {
  return results_of(test, {}, batches).front();
}

// A case and its name in messages.
struct NamedCase {
  std::string name;
  TinyCase test;
};

// Cases in which sums have another order than on one rank: a table that both ends read, clipping by the norm, fused ops that a stage
// boundary cuts, sums over data-parallel ranks.
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
