// The command-line arguments of a training run of a tiny model, for tests that start the program. Thread-safe: values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::testing {

// Returns the arguments of `train` on 22 rows of dummy data. Batches have 3 rows, except the last one of an
// epoch, which has one. The run has one thread, logs every step, and saves checkpoints from which it can be
// resumed.
inline std::vector<std::string> tiny_train_words(const std::string& model, const std::string& output_dir,
                                                 int64_t max_steps) {
  return {"train",
          "--config_name",
          model,
          "--output_dir",
          output_dir,
          "--max_steps",
          std::to_string(max_steps),
          "--dataset_name",
          "dummy",
          "--dummy_num_samples",
          "22",
          "--dummy_seq_length",
          "12",
          "--per_device_train_batch_size",
          "3",
          "--num_threads",
          "1",
          "--logging_steps",
          "1",
          "--save_only_model",
          "False"};
}

}  // namespace plimsoll::testing
