// A training loop of one's own with Plimsoll's engine: the plan, the data, forward and backward, the update,
// are calls; what happens between them is yours. Run it as: own_loop MODEL_FOLDER TRAIN_FILE OUTPUT_FOLDER
// [STEPS] [arguments of plimsoll train, such as --bf16 --gradient_checkpointing True --optim adamw_8bit]
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "plimsoll/trainer.h"

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: own_loop MODEL_FOLDER TRAIN_FILE OUTPUT_FOLDER [STEPS] [ARGUMENTS]\n");
    return 2;
  }
  try {
    const std::string steps_text = argc > 4 ? argv[4] : "20";
    // The same names as on the command line; the last of a name counts. A folder without weights starts from
    // fresh ones; "dummy" is data made up. The plan has room for every batch of so many steps.
    std::vector<std::string> words{"--config_name",
                                   argv[1],
                                   "--tokenizer_name",
                                   argv[1],
                                   "--output_dir",
                                   argv[3],
                                   "--max_steps",
                                   steps_text,
                                   "--per_device_train_batch_size",
                                   "8",
                                   "--gradient_accumulation_steps",
                                   "2"};
    const bool is_dummy = std::string(argv[2]) == "dummy";
    const std::vector<std::string> dummy{"--dataset_name",     "dummy", "--dummy_num_samples", "64",
                                         "--dummy_seq_length", "16"};
    const std::vector<std::string> file{"--train_file", argv[2]};
    words.insert(words.end(), (is_dummy ? dummy : file).begin(), (is_dummy ? dummy : file).end());
    if (argc > 5) words.insert(words.end(), argv + 5, argv + argc);
    const plimsoll::Arguments arguments = plimsoll::parse_arguments(words).arguments;
    const auto steps = static_cast<int>(arguments.max_steps);
    const double peak_rate = 1e-3;

    // Before anything is allocated, the plan says what the run will hold; train() of the Trainer holds the
    // same.
    plimsoll::Trainer trainer(arguments);
    std::printf("planned: %lld bytes in the arena, %.1f MiB in all\n",
                static_cast<long long>(trainer.plan().arena_bytes),
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
    std::printf("held: %lld bytes of the arena, used to %lld; wrote %s\n",
                static_cast<long long>(memory.arena_bytes),
                static_cast<long long>(memory.arena_high_water_bytes), arguments.output_dir.c_str());
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "own_loop: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
