// Shows how to classify single texts with a model that Plimsoll or transformers fine-tuned. Run it as
//
//   predict_text MODEL TEXT [TEXT ...]
//
// MODEL is a folder with config.json, model.safetensors and the tokenizer, or a name in Hugging Face's cache.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "plimsoll/trainer.h"

// Returns the probability of the most likely class: a softmax over the logits.
static double probability(const std::vector<float>& logits) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  return 1.0 / sum;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: predict_text MODEL TEXT [TEXT ...]\n");
    return 2;
  }
  try {
    plimsoll::Arguments arguments;
    arguments.model_name_or_path = argv[1];
    // The plan has room for batches of 8 texts of 128 tokens, the defaults of per_device_eval_batch_size and
    // max_seq_length. Longer texts are cut, and more texts make more batches.

    // The Trainer gets no data set, because the texts are passed to predict() below.
    const plimsoll::TrainerParts parts{.data = plimsoll::MemoryData{}};
    plimsoll::Trainer trainer(arguments, parts, plimsoll::Task::kPredict);

    std::vector<plimsoll::DataRow> rows;
    for (int i = 2; i < argc; ++i) rows.push_back({.text = argv[i]});
    const std::vector<plimsoll::Prediction> predictions = trainer.predict(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::printf("%s  %.4f  %s\n", predictions[i].label.c_str(), probability(predictions[i].logits),
                  rows[i].text->c_str());
    }
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "predict_text: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
