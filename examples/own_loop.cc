// Shows how to write a custom training loop with Plimsoll. A Trainer makes the plan, reads the data, and does
// the forward pass, the backward pass and the update; the code between these calls is your own. Run it as
//
//   own_loop [arguments of plimsoll train]
//
// with --bf16, --gradient_checkpointing, --optim adamw_8bit and others as you like. With --optim sgd
// --optim_args momentum=0.9 the program also replaces Plimsoll's update by an optimizer that is written here,
// with its own parameter groups.
#include <cstdio>

#include "plimsoll/trainer.h"

// Updates a parameter by SGD with momentum. Biases and norms do not decay, and the classifier learns ten times as fast. The
// momentum is the state tensor that --optim allocates for the parameter, which is zero before the first step.
static void update_own(const plimsoll::OwnParameter& parameter, double rate) {
  const bool is_norm = parameter.name.find("LayerNorm") != std::string_view::npos;
  const double decay = is_norm || parameter.name.ends_with("bias") ? 0.0 : 0.01;
  if (parameter.name.starts_with("classifier")) rate *= 10;
  const std::span<float> momentum = parameter.states[0];
  for (size_t i = 0; i < parameter.weights.size(); ++i) {
    const double gradient = parameter.gradients[i] + decay * parameter.weights[i];
    momentum[i] = static_cast<float>(0.9 * momentum[i] + gradient);
    parameter.weights[i] -= static_cast<float>(rate * momentum[i]);
  }
}

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    plimsoll::Arguments arguments = plimsoll::parse_arguments(words).arguments;
    // max_steps must be set before the Trainer is made, because its plan covers only the batches of this number of steps.
    if (arguments.max_steps < 0) arguments.max_steps = 20;
    const bool is_own = arguments.optim == "sgd" && arguments.optim_args.contains("momentum");

    // Before anything is allocated, the plan states the memory of the run, which equals that of
    // Trainer::train().
    plimsoll::Trainer trainer(arguments);
    std::printf("planned: %ld bytes in the arena, %.1f MiB in all\n", trainer.plan().arena_bytes,
                static_cast<double>(trainer.plan().total_bytes) / 1048576.0);

    while (trainer.step() < trainer.max_steps()) {
      double loss = 0;
      for (int64_t micro = 0; micro < arguments.gradient_accumulation_steps; ++micro) {
        loss += trainer.forward_backward(trainer.next_batch());
      }
      // A custom schedule: linear decay to zero.
      const double done = static_cast<double>(trainer.step()) / static_cast<double>(trainer.max_steps());
      const double rate = arguments.learning_rate * (1.0 - done);
      if (is_own) {
        trainer.update_by([rate](const plimsoll::OwnParameter& parameter) { update_own(parameter, rate); });
      } else {
        trainer.update(rate);
      }
      loss /= static_cast<double>(arguments.gradient_accumulation_steps);
      std::printf("step %ld  loss %.4f  lr %.2e\n", trainer.step(), loss, rate);
    }

    trainer.save_model(arguments.output_dir);
    const plimsoll::MemoryFigures memory = trainer.memory();
    std::printf("held: %ld bytes of the arena, used to %ld; wrote %s\n", memory.arena_bytes,
                memory.arena_high_water_bytes, arguments.output_dir.c_str());
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "own_loop: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
