// score_predictions --test_file ROWS.tsv --predictions predict_results.txt [--show N]
//
// Compares the output of `plimsoll predict` ("index<TAB>prediction", a header and one line per row) with the
// labels of the rows, using the same code that scores the baselines. With --show it also prints N evenly
// spaced rows with both labels.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "labelled_text.h"
#include "scores.h"

namespace {

using plimsoll::demo::LabelledText;
using plimsoll::demo::Options;

std::vector<std::string> read_predictions(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error(path + ": cannot be read, or is empty");
  std::vector<std::string> predictions;
  while (std::getline(file, line)) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || line.substr(0, tab) != std::to_string(predictions.size())) {
      throw std::runtime_error(path + ":" + std::to_string(predictions.size() + 2) + ": expected '" +
                               std::to_string(predictions.size()) + "<TAB>prediction'");
    }
    predictions.push_back(line.substr(tab + 1));
  }
  return predictions;
}

void show(const std::vector<LabelledText>& rows, const std::vector<std::string>& predictions, size_t count) {
  count = std::min(count, rows.size());
  std::printf("  %-14s %-14s %s\n", "true", "predicted", "text");
  for (size_t i = 0; i < count; ++i) {
    const size_t row = i * rows.size() / count;
    const bool right = rows[row].label == predictions[row];
    std::printf("%c %-14s %-14s %.68s\n", right ? ' ' : '!', rows[row].label.c_str(),
                predictions[row].c_str(), rows[row].text.c_str());
  }
}

constexpr std::string_view kNames[] = {"--test_file", "--predictions", "--show"};

void run(int argc, char** argv) {
  const Options options(argc, argv, kNames);
  const std::vector<LabelledText> rows = plimsoll::demo::read_rows(options.required("--test_file"));
  const std::vector<std::string> predictions = read_predictions(options.required("--predictions"));
  std::vector<std::string> labels;
  labels.reserve(rows.size());
  for (const LabelledText& row : rows) labels.push_back(row.label);
  const plimsoll::demo::Scores scores = plimsoll::demo::score(labels, predictions);
  const long shown = options.number("--show", 0);
  if (shown > 0) show(rows, predictions, static_cast<size_t>(shown));
  std::printf("accuracy %.4f macro_f1 %.4f rows %zu\n", scores.accuracy, scores.macro_f1, rows.size());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "score_predictions: %s\n", error.what());
    return 2;
  }
}
