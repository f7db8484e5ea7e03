// Shows how to add a metric to the evaluation. It is reported as eval_top2_accuracy, logged, plotted and usable as
// --metric_for_best_model. Run it as
//
//   own_metric [arguments of plimsoll train] --validation_file FILE
#include <algorithm>
#include <cstdio>
#include <memory>

#include "plimsoll/trainer.h"

// The share of rows whose correct class is one of the two most likely ones.
class Top2Accuracy : public plimsoll::Metric {
 public:
  std::string name() const override { return "top2_accuracy"; }
  void reset() override { hits_ = rows_ = 0; }
  void add(const plimsoll::MetricBatch& batch) override {
    const auto width = static_cast<size_t>(batch.num_labels);
    for (size_t row = 0; row < batch.classes.size(); ++row) {
      const int32_t label = batch.classes[row];
      if (label == plimsoll::kNoLabel) continue;
      const std::span<const float> logits = batch.logits.subspan(row * width, width);
      const auto num_larger = std::ranges::count_if(
          logits, [&](float logit) { return logit > logits[static_cast<size_t>(label)]; });
      hits_ += num_larger < 2 ? 1 : 0;
      ++rows_;
    }
  }
  double value() const override {
    return rows_ == 0 ? 0.0 : static_cast<double>(hits_) / static_cast<double>(rows_);
  }

 private:
  int64_t hits_ = 0;
  int64_t rows_ = 0;
};

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    plimsoll::Arguments arguments = plimsoll::parse_arguments(words).arguments;
    arguments.do_eval = true;

    const plimsoll::TrainerParts parts{.metrics = {std::make_shared<Top2Accuracy>()}};
    plimsoll::Trainer trainer(arguments, parts);
    trainer.train();
    const plimsoll::MetricMap metrics = trainer.evaluate();
    std::printf("accuracy %.4f, top-2 accuracy %.4f\n", metrics.at("eval_accuracy"),
                metrics.at("eval_top2_accuracy"));
    return 0;
  } catch (const plimsoll::Error& error) {
    std::fprintf(stderr, "own_metric: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
