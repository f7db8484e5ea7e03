// Shows how to train on data that is not in a file: a data set whose rows the program computes, here as token ids, and a
// loop that also makes batches of its own. Run it as
//
//   own_data [arguments of plimsoll train without data files]
//
// for example with --config_name bert-base-uncased --output_dir out. No tokenizer is needed, because the rows are ids.
#include <cstdio>
#include <memory>

#include "plimsoll/trainer.h"

// Sequences of random ids. The class of a sequence is 1 if the id 7 occurs in it, otherwise 0.
class Sequences : public plimsoll::DataRows {
 public:
  Sequences(int64_t num_rows, uint32_t seed) : num_rows_(num_rows), seed_(seed) {}
  int64_t num_rows() const override { return num_rows_; }
  plimsoll::DataRow row(int64_t index) const override {
    uint32_t state = seed_ + static_cast<uint32_t>(index) * 2654435761u;
    const auto draw = [&](uint32_t end) {
      state = state * 1664525u + 1013904223u;
      return static_cast<int32_t>((state >> 8) % end);
    };
    plimsoll::DataRow row;
    const int32_t length = 4 + draw(12);
    const bool has_seven = draw(2) == 1;
    for (int32_t i = 0; i < length; ++i) row.ids.push_back(10 + draw(90));
    if (has_seven) row.ids[static_cast<size_t>(draw(static_cast<uint32_t>(length)))] = 7;
    row.classes = {has_seven ? 1 : 0};
    return row;
  }

 private:
  int64_t num_rows_;
  uint32_t seed_;
};

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    plimsoll::Arguments arguments = plimsoll::parse_arguments(words).arguments;
    arguments.do_eval = true;

    // The constructor of Trainer reads all rows, so the plan has room for exactly the batches of these rows.
    const plimsoll::TrainerParts parts{.data = plimsoll::MemoryData{
                                           .train = std::make_shared<Sequences>(512, 1),
                                           .validation = std::make_shared<Sequences>(128, 2),
                                           .label_names = {"without", "with"},
                                       }};
    plimsoll::Trainer trainer(arguments, parts);
    const plimsoll::PlanReport& plan = trainer.plan();
    std::printf("planned: %.1f MiB, %.1f MiB of it for activations\n",
                static_cast<double>(plan.total_bytes) / 1048576.0,
                static_cast<double>(plan.memory.find_phase("train")->by_purpose.saved) / 1048576.0);

    std::printf("train loss: %.4f\n", trainer.train().metrics.at("train_loss"));
    std::printf("accuracy: %.4f\n", trainer.evaluate().at("eval_accuracy"));

    // The program makes a batch of its own, trains one step on it, and then runs a forward pass.
    const plimsoll::Batch batch =
        trainer.make_batch({{.ids = {20, 7, 30}, .classes = {1}}, {.ids = {20, 30}, .classes = {0}}});
    trainer.forward_backward(batch);
    trainer.update(1e-4);
    const plimsoll::ForwardOutput output = trainer.forward(batch);
    std::printf("loss of the batch: %.4f, logits of its first row: %.3f %.3f\n", *output.loss,
                output.logits[0], output.logits[1]);
    trainer.save_model(arguments.output_dir);
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "own_data: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
