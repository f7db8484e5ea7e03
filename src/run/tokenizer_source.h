// The tokenizer of a run, and the decision whether a plan reads data. Functions that read files and return values;
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/model_folder.h"
#include "io/hub/hub_cache.h"
#include "io/text/chat_template.h"
#include "io/text/tokenizer.h"
#include "run/model_source.h"
#include "run/run_purpose.h"

namespace plimsoll {

struct TokenizerSource {
  std::unique_ptr<Tokenizer> tokenizer =
      {};  // null for --dataset_name dummy and for a plan that reads no data
  std::string folder = {};
  // Set if the run has no tokenizer but may have rows of token ids, which need none: the error that is thrown if a
  // row is a text.
  std::optional<Error> missing = {};
};

// Returns the folder of the tokenizer: --tokenizer_name, else that of the adapter or model; "" for none. A plan
// without training data does not look for --tokenizer_name.
std::string find_tokenizer_folder(const Arguments& arguments, RunPurpose purpose, const ModelSource& model,
                                  const HubEnvironment& hub, FileSystem& files);

// Decides whether the run reads data. Adds a note about data that a plan is given but cannot read.
// `tokenizer_folder`: as find_tokenizer_folder() returns it.
DataUse choose_data_use(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                        const std::string& tokenizer_folder, FileSystem& files, Diagnostics& diagnostics);

enum class TokenIdRows : uint8_t { kNone, kPossible, kFound };

// Examines whether a data file of the run contains token ids, for which no tokenizer is needed. kFound: the first 64
// KiB of a JSON file contain "input_ids". kPossible: a file is compressed or in one of Arrow's formats, and was not examined.
// Files that cannot be opened count as files without ids.
TokenIdRows find_token_id_rows(const Arguments& arguments);

// Loads the tokenizer from its folder. If --tokenizer_name is not set and no file in the folder names the class of
// the tokenizer, the class is that of the model's architecture. Errors: kUsage if `folder` is ""; kBadData if its ids
// exceed the model's vocabulary.
TokenizerSource load_tokenizer(const std::string& folder, const Arguments& arguments,
                               const ModelConfig& config);

// Returns the template of conversations: --chat_template, else that of the tokenizer's folder. Requires: a tokenizer. Errors: as
// ChatTemplate::named() and of_folder().
ChatTemplate find_chat_template(const Arguments& arguments, const TokenizerSource& source);

// Checks that the model has an embedding for every token type that the tokenizer gives to the rows of a file, which
// are single texts or pairs of texts. Errors: kBadData.
enum class TextsPerRow : uint8_t { kOne, kTwo };
void check_token_types(const Tokenizer& tokenizer, TextsPerRow texts, const std::string& file_name,
                       const ModelConfig& config);

// Returns the files of the tokenizer for the folder of a saved model. If no tokenizer_config.json names the class of
// the tokenizer, the class is added to the saved one, because the architecture of the saved model may imply another
// class. If a training was given a chat template by name, the name is added too, so that later runs use it. Requires: a folder.
std::vector<CopiedFile> copied_tokenizer_files(FileSystem& files, const TokenizerSource& source,
                                               const std::string& chat_template = {});

// Returns the number of tokens of a block of a language model: --block_size or 1024, but no more than the model has
// positions.
int64_t block_size(const Arguments& arguments, const ModelConfig& config);

// Returns the largest number of tokens that a sequence may have: that of a block for a language model, else the number
// that the arguments state, but no more than the model has positions.
int64_t max_seq_length(const Arguments& arguments, const ModelConfig& config);

// Warns if max_seq_length() is less than the length that the arguments state.
void warn_of_cut_length(const Arguments& arguments, const ModelConfig& config, Diagnostics& diagnostics);

}  // namespace plimsoll
