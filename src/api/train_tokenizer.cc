// Trains tokenizers for the command line and for users of the library.
#include <limits>

#include "base/file.h"
#include "io/ckpt/model_folder.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/tokenizer_training.h"
#include "plimsoll/inspect.h"
#include "run/device_choice.h"

namespace plimsoll {
namespace {

void check_range(const char* name, int64_t value, int64_t least) {
  if (value >= least && value <= std::numeric_limits<int32_t>::max() - 1) return;
  throw_error(ErrorCode::kUsage, "--{} is {}, but should be {} to {}", name, value, least,
              std::numeric_limits<int32_t>::max() - 1);
}

}  // namespace

TokenizerResult train_tokenizer(const TokenizerTraining& training, const std::string& output_dir) {
  if (training.kind != "bpe" && training.kind != "wordpiece") {
    throw_error(ErrorCode::kUsage, "--train is '{}', but should be bpe or wordpiece", training.kind);
  }
  if (training.files.empty())
    throw_error(ErrorCode::kUsage, "training a tokenizer needs at least one text file; name one or more");
  check_range("vocab_size", training.vocab_size, 1);
  check_range("min_frequency", training.min_frequency, 0);
  for (const std::string& token : training.special_tokens) {
    if (token.empty())
      throw_error(ErrorCode::kUsage,
                  "--special_tokens has an empty token; write the token or remove a comma");
  }
  FileSystem& files = posix_file_system();
  if (const auto found = find_tokenizer_files(files, output_dir); !found.empty()) {
    throw_error(ErrorCode::kUsage, "'{}' already has a tokenizer ({}); give another --output_dir", output_dir,
                found.front());
  }
  const bool is_bpe = training.kind == "bpe";
  const text::TrainedTokenizer trained = text::train_tokenizer(
      training.files, {.model = is_bpe ? text::TrainedModel::kBpe : text::TrainedModel::kWordPiece,
                       .vocab_size = training.vocab_size,
                       .min_frequency = training.min_frequency,
                       .special_tokens = training.special_tokens,
                       .lowercase = training.do_lower_case,
                       .num_threads = available_threads()});
  make_folders(files, output_dir);
  // tokenizer.json contains the vocabulary and is written last, so that it exists only in complete folders.
  replace_file(files, join_path(output_dir, text::kTokenizerConfigJson), trained.tokenizer_config_json);
  replace_file(files, join_path(output_dir, text::kTokenizerJson), trained.tokenizer_json);
  std::string line =
      fmt::format("{}: a {} tokenizer with {} tokens and {} merges, from {} different words in {:.1f} MB",
                  output_dir, is_bpe ? "byte-level BPE" : "WordPiece", trained.num_tokens, trained.num_merges,
                  trained.num_words, static_cast<double>(trained.num_bytes) / 1e6);
  return {.line = std::move(line),
          .num_tokens = static_cast<int64_t>(trained.num_tokens),
          .num_merges = static_cast<int64_t>(trained.num_merges),
          .num_words = static_cast<int64_t>(trained.num_words),
          .num_bytes = static_cast<int64_t>(trained.num_bytes)};
}

}  // namespace plimsoll
