// A training loop of one's own with Plimsoll's engine: the plan, the data, forward and backward, the update,
// are calls; what happens between them is yours. Run it as: own_loop MODEL_FOLDER TRAIN_FILE OUTPUT_FOLDER
// [STEPS]
#include <cstdio>
#include <cstdlib>

#include "plimsoll/trainer.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: own_loop MODEL_FOLDER TRAIN_FILE OUTPUT_FOLDER [STEPS]\n");
    return 2;
  }
  try {
    // The same names as on the command line. A folder without weights starts from fresh ones; "dummy" is data
    // made up.
    plimsoll::Arguments arguments;
    arguments.config_name = argv[1];
    arguments.tokenizer_name = argv[1];
    arguments.output_dir = argv[3];
    arguments.per_device_train_batch_size = 8;
    arguments.gradient_accumulation_steps = 2;
    if (std::string(argv[2]) == "dummy") {
      arguments.dataset_name = "dummy";
      arguments.dummy_num_samples = 64;
      arguments.dummy_seq_length = 16;
    } else {
      arguments.train_file = argv[2];
    }
    const int steps = argc > 4 ? std::atoi(argv[4]) : 20;
    // The plan has room for every batch of so many steps.
    arguments.max_steps = steps;
    const double peak_rate = 1e-3;

    // Before anything is allocated, the plan says what the run will hold; train() of the Trainer holds the
    // same.
    plimsoll::Trainer trainer(arguments);
    std::printf("planned: %.1f MiB in the arena, %.1f MiB in all\n",
                static_cast<double>(trainer.plan().arena_bytes) / 1048576.0,
                static_cast<double>(trainer.plan().total_bytes) / 1048576.0);
    trainer.start();

    for (int step = 0; step < steps; ++step) {
      double loss = 0;
      for (int micro = 0; micro < arguments.gradient_accumulation_steps; ++micro) {
        const plimsoll::Batch batch = trainer.next_batch();
        loss += trainer.forward_backward(batch) / static_cast<double>(arguments.gradient_accumulation_steps);
      }
      // A schedule of one's own: linear to nothing.
      const double rate = peak_rate * (1.0 - static_cast<double>(step) / steps);
      const double norm = trainer.update(rate);
      if (step % 5 == 0 || step + 1 == steps)
        std::printf("step %d  loss %.4f  |g| %.3f  lr %.2e\n", step + 1, loss, norm, rate);
    }

    trainer.save_model(arguments.output_dir);
    const plimsoll::MemoryFigures memory = trainer.memory();
    std::printf("held: %.1f MiB of the arena were used; wrote %s\n",
                static_cast<double>(memory.arena_high_water_bytes) / 1048576.0, arguments.output_dir.c_str());
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "own_loop: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
