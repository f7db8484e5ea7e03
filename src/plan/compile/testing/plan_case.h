// Makes plan requests for tests, from presets and from random small models. Deterministic.
#pragma once

#include <string>
#include <vector>

#include "base/check.h"
#include "plan/compile/plan.h"

namespace plimsoll {

// Returns the request of a small BERT with 4 sequences of 32 tokens, AdamW in fp32, training and evaluation.
inline PlanRequest small_request() {
  PlanRequest request;
  request.model.config.hidden_size = 64;
  request.model.config.num_hidden_layers = 3;
  request.model.config.num_attention_heads = 4;
  request.model.config.intermediate_size = 256;
  request.model.config.vocab_size = 500;
  request.batches.train = {.tokens = 128, .sequences = 4, .longest = 32};
  request.batches.evaluate = {.tokens = 256, .sequences = 8, .longest = 32};
  request.device.num_threads = 2;
  request.device.isa = CpuIsa::kAvx512;
  request.host = {.process_bytes = 40'000'000, .data_bytes = 5'000'001, .io_bytes = 8'000'000};
  return request;
}

inline PlanRequest preset_request(const std::string& name, int64_t sequences, int64_t longest) {
  PlanRequest request = small_request();
  const std::optional<ModelConfig> model = find_preset(name);
  PLIMSOLL_CHECK(model.has_value(), "no preset '{}'", name);
  request.model.config = *model;
  request.batches.train = {.tokens = sequences * longest, .sequences = sequences, .longest = longest};
  request.batches.evaluate = request.batches.train;
  return request;
}

// A random generator (splitmix64) whose numbers do not depend on the standard library.
class CaseRandom {
 public:
  explicit CaseRandom(uint64_t seed) : state_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return next() % 2 == 0; }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

inline PlanRequest random_request(uint64_t seed) {
  CaseRandom random(seed);
  PlanRequest request = small_request();
  const int64_t heads = random.between(1, 4);
  request.model.config.num_attention_heads = heads;
  request.model.config.hidden_size = heads * 8 * random.between(1, 6);
  request.model.config.intermediate_size = 4 * random.between(3, 100);
  request.model.config.num_hidden_layers = random.between(1, 5);
  request.model.config.vocab_size = random.between(30, 3000);
  if (random.coin()) {
    request.model.config.model_type = "distilbert";
    request.model.config.type_vocab_size = 0;
  }
  request.model.config.num_labels = random.between(1, 9);
  request.model.problem_type = random.coin() ? ProblemType::kSingleLabel : ProblemType::kMultiLabel;
  request.update.optimizer.kind = random.coin() ? OptimizerKind::kAdamW : OptimizerKind::kSgd;
  if (random.coin() && request.update.optimizer.kind == OptimizerKind::kSgd)
    request.update.optimizer.momentum = 0.9;
  request.batches.accumulation_steps = random.coin() ? 1 : random.between(2, 5);
  const int64_t sequences = random.between(1, 12);
  const int64_t longest = random.between(3, 90);
  request.batches.train = {
      .tokens = random.between(sequences, sequences * longest), .sequences = sequences, .longest = longest};
  const int64_t evaluated = random.between(1, 40);
  request.batches.evaluate = {.tokens = evaluated * longest, .sequences = evaluated, .longest = longest};
  if (random.coin()) {
    request.precision.activation_dtype = DType::kBF16;
    request.device.isa = CpuIsa::kAmx;
  }
  request.train = random.between(0, 4) != 0;
  request.evaluate = !request.train || random.coin();
  return request;
}

// Returns requests for all presets and forty random requests, for tests that check that the parts of a plan add up.
inline std::vector<PlanRequest> all_plan_cases() {
  std::vector<PlanRequest> requests{small_request()};
  for (const std::string& name : preset_names()) requests.push_back(preset_request(name, 4, 128));
  for (uint64_t seed = 1; seed <= 40; ++seed) requests.push_back(random_request(seed));
  return requests;
}

}  // namespace plimsoll
