// An optimizer of one's own with parameter groups of one's own, in the memory that Plimsoll plans: SGD with
// momentum, where biases and norms do not decay and the classifier learns ten times as fast. Run it as:
// own_optimizer MODEL_FOLDER OUTPUT_FOLDER [arguments of plimsoll train]
#include <cstdio>
#include <string>
#include <vector>

#include "plimsoll/trainer.h"

namespace {

struct Group {
  double rate = 1e-2;
  double decay = 0.01;
};

Group group_of(std::string_view name) {
  Group group;
  if (name.ends_with("bias") || name.find("LayerNorm") != std::string_view::npos) group.decay = 0;
  if (name.starts_with("classifier")) group.rate *= 10;
  return group;
}

// The state is --optim's: with momentum, SGD has one, zero before the first step.
void sgd_with_momentum(const plimsoll::OwnParameter& parameter) {
  const Group group = group_of(parameter.name);
  const std::span<float> momentum = parameter.states[0];
  for (size_t i = 0; i < parameter.weights.size(); ++i) {
    const double gradient = parameter.gradients[i] + group.decay * parameter.weights[i];
    momentum[i] = static_cast<float>(0.9 * momentum[i] + gradient);
    parameter.weights[i] -= static_cast<float>(group.rate * momentum[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: own_optimizer MODEL_FOLDER OUTPUT_FOLDER [ARGUMENTS]\n");
    return 2;
  }
  try {
    std::vector<std::string> words{"--config_name",
                                   argv[1],
                                   "--output_dir",
                                   argv[2],
                                   "--dataset_name",
                                   "dummy",
                                   "--dummy_num_samples",
                                   "64",
                                   "--dummy_seq_length",
                                   "16",
                                   "--max_steps",
                                   "20",
                                   "--use_cpu",
                                   "--optim",
                                   "sgd",
                                   "--optim_args",
                                   "momentum=0.9"};
    words.insert(words.end(), argv + 3, argv + argc);
    plimsoll::Trainer trainer(plimsoll::parse_arguments(words).arguments);
    std::printf("planned: %lld bytes in the arena\n", static_cast<long long>(trainer.plan().arena_bytes));
    while (trainer.step() < trainer.max_steps()) {
      const double loss = trainer.forward_backward(trainer.next_batch());
      trainer.update_by(sgd_with_momentum);
      std::printf("step %lld  loss %.4f\n", static_cast<long long>(trainer.step()), loss);
    }
    trainer.save_model(argv[2]);
    std::printf("held: %lld bytes of the arena\n", static_cast<long long>(trainer.memory().arena_bytes));
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "own_optimizer: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
