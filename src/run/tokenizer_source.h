// Finds the tokenizer of a run, and decides whether a plan reads data. Functions that read files and return values; thread-safe.
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
  // null with --dataset_name dummy (random ids) and for a plan that reads no data
  std::unique_ptr<Tokenizer> tokenizer = {};
  std::string folder = {};
  // Set if the run has no tokenizer, because its rows may already be token ids: the error to be thrown if a row turns out to be a text.
  std::optional<Error> missing = {};
};

// Returns the folder of the tokenizer: --tokenizer_name, or else the folder of the adapter or of the model; "" if there is none, and for
// random data. A plan without training data ignores --tokenizer_name.
std::string find_tokenizer_folder(const Arguments& arguments, RunPurpose purpose, const ModelSource& model,
                                  const HubEnvironment& hub, FileSystem& files);

// Decides whether the run reads data. Adds a note if a plan is given data that it cannot read. `tokenizer_folder` is the result of
// find_tokenizer_folder().
DataUse choose_data_use(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                        const std::string& tokenizer_folder, FileSystem& files, Diagnostics& diagnostics);

enum class TokenIdRows : uint8_t { kNone, kPossible, kFound };

// Finds out whether a data file of the run contains token ids, for which no tokenizer is needed. kFound: the first 64 KiB of a JSON file
// contain "input_ids". kPossible: a file is compressed or in one of Arrow's formats and was not examined, or the header of a CSV file
// contains input_ids. Files that cannot be opened count as files without ids.
TokenIdRows find_token_id_rows(const Arguments& arguments);

// Loads the tokenizer from its folder. If --tokenizer_name is not set and no file in the folder states the tokenizer's class, the class
// follows from the model's architecture. Errors: kUsage if `folder` is ""; kBadData if a token id is outside the model's vocabulary.
TokenizerSource load_tokenizer(const std::string& folder, const Arguments& arguments,
                               const ModelConfig& config);

// Returns the chat template: --chat_template, or else that in the tokenizer's folder. Requires: the run has a tokenizer. Errors: as
// ChatTemplate::named() and of_folder().
ChatTemplate find_chat_template(const Arguments& arguments, const TokenizerSource& source);

// Checks that the model has an embedding for every token type that the tokenizer assigns in the rows of a file, which are single texts or
// pairs of texts. Errors: kBadData.
enum class TextsPerRow : uint8_t { kOne, kTwo };
void check_token_types(const Tokenizer& tokenizer, TextsPerRow texts, const std::string& file_name,
                       const ModelConfig& config);

// Returns the files of the tokenizer for the folder of a saved model. If tokenizer_config.json does not state the tokenizer's class, the
// class is added, because the architecture of the saved model may imply another one. If --chat_template named a template, its name is
// added too, so that later runs use it. Requires: the tokenizer was loaded from a folder.
std::vector<CopiedFile> copied_tokenizer_files(FileSystem& files, const TokenizerSource& source,
                                               const std::string& chat_template = {});

// Returns the number of tokens per block for a language model: --block_size, or if it is not set, --dummy_seq_length for random data,
// otherwise --max_seq_length for a masked and 1024 for a causal language model. The result is at most the number of positions of the model.
int64_t block_size(const Arguments& arguments, const ModelConfig& config);

// Returns the largest number of tokens per sequence: that of a block for a language model, or else the number that the arguments state,
// but at most the number of positions of the model.
int64_t max_seq_length(const Arguments& arguments, const ModelConfig& config);

// Warns if max_seq_length() is smaller than the length that the arguments state.
void warn_of_cut_length(const Arguments& arguments, const ModelConfig& config, Diagnostics& diagnostics);

}  // namespace plimsoll
