// bag_of_words --train_file F --validation_file F --test_file F [--epochs 30]
//
// Two baselines without transformers: the most frequent class, and a multinomial logistic regression on words
// and pairs of neighbouring words. A separate program without code from the engine.
//
// Features: the tf-idf weights of the terms (single words and pairs of neighbouring words) that occur in the training rows. A term that
// occurs n times in a row, and in n_t of N training rows, has the term frequency 1 + ln n and the inverse document frequency
// 1 + ln((1 + N) / (1 + n_t)). Rows are scaled to length 1. Training: AdaGrad on single rows with one thread; the epoch with the best
// accuracy on the validation file is kept. The same input gives the same results.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "labelled_text.h"
#include "scores.h"

namespace {

using plimsoll::demo::LabelledText;
using plimsoll::demo::Options;
using plimsoll::demo::Scores;

struct Feature {
  int index;
  float value;
};
using SparseRow = std::vector<Feature>;

// Returns the words of a text in lower case. A word is an uninterrupted sequence of letters, digits and bytes above ASCII.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool part = byte >= 0x80 || std::isalnum(byte) != 0;
    if (part && !inside) words.emplace_back();
    if (part) words.back() += static_cast<char>(std::tolower(byte));
    inside = part;
  }
  return words;
}

std::map<std::string, int> terms_of(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  std::map<std::string, int> terms;
  for (size_t i = 0; i < words.size(); ++i) {
    ++terms[words[i]];
    if (i > 0) ++terms[words[i - 1] + " " + words[i]];
  }
  return terms;
}

class Vectorizer {
 public:
  explicit Vectorizer(const std::vector<LabelledText>& rows) {
    std::map<std::string, int> num_rows_with;
    for (const LabelledText& row : rows) {
      for (const auto& [term, count] : terms_of(row.text)) ++num_rows_with[term];
    }
    for (const auto& [term, count] : num_rows_with) {
      index_.emplace(term, static_cast<int>(idf_.size()));
      idf_.push_back(
          static_cast<float>(1 + std::log((1.0 + static_cast<double>(rows.size())) / (1.0 + count))));
    }
  }

  SparseRow transform(std::string_view text) const {
    SparseRow row;
    double square = 0;
    for (const auto& [term, count] : terms_of(text)) {
      const auto found = index_.find(term);
      if (found == index_.end()) continue;
      const float value =
          idf_[static_cast<size_t>(found->second)] * (1 + std::log(static_cast<float>(count)));
      row.push_back({found->second, value});
      square += static_cast<double>(value) * value;
    }
    const auto scale = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
    for (Feature& feature : row) feature.value *= scale;
    return row;
  }

  int num_features() const { return static_cast<int>(idf_.size()); }

 private:
  std::unordered_map<std::string, int> index_;
  std::vector<float> idf_;
};

class LogisticRegression {
 public:
  LogisticRegression(int num_features, int num_classes)
      : num_classes_(static_cast<size_t>(num_classes)),
        weights_((static_cast<size_t>(num_features) + 1) * num_classes_),
        squares_(weights_.size()),
        scores_(num_classes_) {}

  void learn(const SparseRow& row, int label) {
    compute_scores(row);
    const float top = *std::ranges::max_element(scores_);
    float sum = 0;
    for (float& score : scores_) sum += score = std::exp(score - top);
    for (float& score : scores_) score /= sum;
    scores_[static_cast<size_t>(label)] -= 1;
    step(weights_.size() - num_classes_, 1.0f);
    for (const Feature& feature : row) step(static_cast<size_t>(feature.index) * num_classes_, feature.value);
  }

  int predict(const SparseRow& row) {
    compute_scores(row);
    return static_cast<int>(std::ranges::max_element(scores_) - scores_.begin());
  }

 private:
  void compute_scores(const SparseRow& row) {
    std::copy(weights_.end() - static_cast<std::ptrdiff_t>(num_classes_), weights_.end(), scores_.begin());
    for (const Feature& feature : row) {
      const float* column = &weights_[static_cast<size_t>(feature.index) * num_classes_];
      for (size_t k = 0; k < num_classes_; ++k) scores_[k] += feature.value * column[k];
    }
  }

  // Updates the weights of a feature. Requires: scores_ contains the gradient of the loss with respect to the scores.
  void step(size_t first, float value) {
    constexpr float kRate = 0.3f;
    for (size_t k = 0; k < num_classes_; ++k) {
      const float gradient = scores_[k] * value;
      squares_[first + k] += gradient * gradient;
      weights_[first + k] -= kRate * gradient / (std::sqrt(squares_[first + k]) + 1e-6f);
    }
  }

  size_t num_classes_;
  std::vector<float> weights_;  // weights, [feature, class]; the last feature is the bias
  std::vector<float> squares_;  // AdaGrad's sums of squared gradients
  std::vector<float> scores_;
};

std::vector<std::string> labels_of(const std::vector<LabelledText>& rows) {
  std::vector<std::string> labels;
  labels.reserve(rows.size());
  for (const LabelledText& row : rows) labels.push_back(row.label);
  return labels;
}

std::vector<SparseRow> transform_all(const Vectorizer& vectorizer, const std::vector<LabelledText>& rows) {
  std::vector<SparseRow> result;
  result.reserve(rows.size());
  for (const LabelledText& row : rows) result.push_back(vectorizer.transform(row.text));
  return result;
}

void shuffle(std::vector<size_t>& order, uint64_t& state) {
  for (size_t i = order.size(); i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(state >> 33) % i]);
  }
}

void print_scores(const char* name, const Scores& validation, const Scores& test) {
  std::printf("%-42s %10.4f %9.4f %11.4f %9.4f\n", name, validation.accuracy, validation.macro_f1,
              test.accuracy, test.macro_f1);
}

struct Files {
  std::vector<LabelledText> train, validation, test;
};

void report_majority(const Files& files) {
  std::map<std::string, int> members;
  for (const LabelledText& row : files.train) ++members[row.label];
  const std::string most =
      std::ranges::max_element(members, {}, [](const auto& entry) { return entry.second; })->first;
  const auto of = [&](const std::vector<LabelledText>& rows) {
    return plimsoll::demo::score(labels_of(rows), std::vector<std::string>(rows.size(), most));
  };
  print_scores(("majority class (" + most + ")").c_str(), of(files.validation), of(files.test));
}

void report_regression(const Files& files, long epochs) {
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, int> class_index;
  for (const LabelledText& row : files.train) class_index.emplace(row.label, 0);
  std::vector<std::string> names;
  for (auto& [name, index] : class_index) {
    index = static_cast<int>(names.size());
    names.push_back(name);
  }
  const Vectorizer vectorizer(files.train);
  const std::vector<SparseRow> train = transform_all(vectorizer, files.train);
  const std::vector<SparseRow> validation = transform_all(vectorizer, files.validation);
  const std::vector<SparseRow> test = transform_all(vectorizer, files.test);
  LogisticRegression model(vectorizer.num_features(), static_cast<int>(names.size()));
  const auto score_of = [&](const std::vector<SparseRow>& rows, const std::vector<LabelledText>& truth) {
    std::vector<std::string> guesses;
    guesses.reserve(rows.size());
    for (const SparseRow& row : rows) guesses.push_back(names[static_cast<size_t>(model.predict(row))]);
    return plimsoll::demo::score(labels_of(truth), guesses);
  };
  std::vector<size_t> order(train.size());
  std::iota(order.begin(), order.end(), size_t{0});
  uint64_t state = 1;
  Scores best_validation;
  Scores best_test;
  long best_epoch = 0;
  for (long epoch = 1; epoch <= epochs && epoch - best_epoch <= 3; ++epoch) {
    shuffle(order, state);
    for (const size_t i : order) model.learn(train[i], class_index.at(files.train[i].label));
    const Scores now = score_of(validation, files.validation);
    if (best_epoch == 0 || now.accuracy > best_validation.accuracy) {
      best_validation = now;
      best_test = score_of(test, files.test);
      best_epoch = epoch;
    }
  }
  print_scores("bag of words, logistic regression", best_validation, best_test);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("  (%d features, %zu rows, best of %ld epochs by validation accuracy, %.1f s on one thread)\n",
              vectorizer.num_features(), files.train.size(), best_epoch, seconds);
}

constexpr std::string_view kNames[] = {"--train_file", "--validation_file", "--test_file", "--epochs"};

void run(int argc, char** argv) {
  const Options options(argc, argv, kNames);
  const auto rows = [&](const char* name) {
    std::vector<LabelledText> read = plimsoll::demo::read_rows(options.required(name));
    if (read.empty()) throw std::runtime_error(options.required(name) + " has no rows");
    return read;
  };
  const Files files{rows("--train_file"), rows("--validation_file"), rows("--test_file")};
  std::printf("%-42s %10s %9s %11s %9s\n", "", "validation", "", "test", "");
  std::printf("%-42s %10s %9s %11s %9s\n", "baseline", "accuracy", "macro F1", "accuracy", "macro F1");
  report_majority(files);
  report_regression(files, options.number("--epochs", 30));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bag_of_words: %s\n", error.what());
    return 2;
  }
}
