// Loads the requested tensors from a model folder and reports mismatches.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <list>
#include <numeric>
#include <set>

#include "base/check.h"
#include "base/printable.h"
#include "io/ckpt/model_folder.h"

namespace plimsoll {
namespace {

int64_t row_elements(std::span<const int64_t> shape) {
  if (shape.empty()) return 1;
  return std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
}

View at_row(const WantedTensor& wanted) {
  const int64_t skipped =
      wanted.first_row * row_elements(wanted.shape) * dtype_bytes(wanted.destination.dtype);
  return {static_cast<std::byte*>(wanted.destination.data) + skipped, wanted.destination.dtype};
}

[[noreturn]] void fail_on_mismatches(const std::vector<ShapeMismatch>& mismatched,
                                     const std::string& folder) {
  std::string list;
  for (const ShapeMismatch& mismatch : mismatched) {
    list += fmt::format("\n  {}: {} in the checkpoint, {} in the model", mismatch.stored_name,
                        format_shape(mismatch.found), format_shape(mismatch.wanted));
  }
  throw_error(ErrorCode::kBadData,
              "{}: {} the checkpoint and the model:{}\n  check that config.json belongs to these weights; to "
              "initialize such tensors again (a classifier for other labels), add --ignore_mismatched_sizes",
              folder,
              mismatched.size() == 1
                  ? "the shape of 1 tensor differs between"
                  : fmt::format("the shapes of {} tensors differ between", mismatched.size()),
              list);
}

// Joins names, sorted as in the messages of Hugging Face's transformers.
std::string join_names(std::vector<std::string> names) {
  std::ranges::sort(names);
  for (std::string& name : names) name = quoted_name(name);
  return fmt::format("[{}]", fmt::join(names, ", "));
}

// The wording of the message in transformers 4, which users know and search for.
constexpr std::string_view kTrainFirst =
    "You should probably TRAIN this model on a down-stream task to be able to use it for predictions and "
    "inference.";

}  // namespace

LoadReport ModelFolder::load(std::span<const WantedTensor> wanted, const LoadOptions& options) const {
  LoadReport report;
  report.note = unwrapping_note_;
  report.is_replaced = is_replaced_;
  struct Pair {
    const WantedTensor* wanted;
    Located stored;
  };
  std::vector<Pair> pairs;
  std::list<StoredTensor> transposes;
  std::set<std::string_view> used;
  for (const WantedTensor& tensor : wanted) {
    PLIMSOLL_CHECK(!tensor.names.empty() && (tensor.destination || tensor.read),
                   "a tensor to load needs at least one name, and a destination or a function that reads it");
    Located stored;
    for (const std::string& name : tensor.names) {
      stored = find(name);
      if (stored.tensor != nullptr) break;
    }
    if (stored.tensor == nullptr) {
      report.missing.push_back(tensor.names.front());
      continue;
    }
    used.insert(stored.tensor->name);  // stores a string_view; the header of the file owns the text
    if (tensor.is_transposed) stored.tensor = &transposes.emplace_back(transpose_of(*stored.tensor));
    if (stored.tensor->shape != tensor.shape) {
      report.mismatched.push_back(
          {tensor.names.front(), stored.tensor->name, tensor.shape, stored.tensor->shape});
      continue;
    }
    pairs.push_back({&tensor, stored});
  }
  if (!report.mismatched.empty() && options.on_mismatch == OnShapeMismatch::kFail) {
    fail_on_mismatches(report.mismatched, path_);
  }
  for (const auto& [known_as, place] : stored_) {
    const std::string& name = place.name;
    const auto ends_so = [&name](const std::string& suffix) { return name.ends_with(suffix); };
    if (!used.contains(name) && !std::ranges::any_of(options.ignored_suffixes, ends_so))
      report.unused.push_back(name);
  }
  // Reads the tensors in the order of their data on the disk, so that the disk reads sequentially.
  std::ranges::stable_sort(
      pairs, {}, [](const Pair& pair) { return std::pair(pair.stored.file, pair.stored.tensor->begin); });
  for (const Pair& pair : pairs) {
    if (pair.wanted->read) {
      pair.wanted->read(*pair.stored.file, *pair.stored.tensor);
    } else {
      pair.stored.file->read(*pair.stored.tensor, at_row(*pair.wanted));
    }
    ++report.num_loaded;
  }
  return report;
}

std::string describe_load(const LoadReport& report, std::string_view model_name, std::string_view folder) {
  if (report.is_replaced) return {};
  std::string text = report.note.empty() ? "" : report.note + "\n";
  // If the folder contains a model for another task, the tensors of the pooler and of the head may be missing, which are at most
  // kMostOfAHead. If more tensors are missing, a warning is added.
  constexpr size_t kMostOfAHead = 4;
  if (report.missing.size() > kMostOfAHead) {
    text += fmt::format(
        "warning: only {} of the {} tensors of this model are in {}: the others start from random numbers. "
        "Check "
        "that config.json belongs to these weights\n",
        report.num_loaded, report.num_loaded + std::ssize(report.missing) + std::ssize(report.mismatched),
        folder);
  }
  if (!report.unused.empty()) {
    text += fmt::format(
        "Some weights of the model checkpoint at {0} were not used when initializing {1}: {2}\n"
        "- This IS expected if you are initializing {1} from the checkpoint of a model trained on another "
        "task "
        "or with another architecture (e.g. initializing a BertForSequenceClassification model from a "
        "BertForPreTraining model).\n"
        "- This IS NOT expected if you are initializing {1} from the checkpoint of a model that you expect "
        "to "
        "be exactly identical (initializing a BertForSequenceClassification model from a "
        "BertForSequenceClassification model).\n",
        folder, model_name, join_names(report.unused));
  }
  if (!report.missing.empty()) {
    text += fmt::format(
        "Some weights of {} were not initialized from the model checkpoint at {} and are newly initialized: "
        "{}\n{}\n",
        model_name, folder, join_names(report.missing), kTrainFirst);
  }
  if (!report.mismatched.empty()) {
    text += fmt::format(
        "Some weights of {} were not initialized from the model checkpoint at {} and are newly initialized "
        "because the "
        "shapes did not match:\n",
        model_name, folder);
    for (const ShapeMismatch& mismatch : report.mismatched) {
      text += fmt::format("- {}: found shape {} in the checkpoint and {} in the model instantiated\n",
                          mismatch.name, format_shape(mismatch.found), format_shape(mismatch.wanted));
    }
    text += fmt::format("{}\n", kTrainFirst);
  }
  return text;
}

}  // namespace plimsoll
