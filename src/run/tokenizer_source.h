// The tokenizer of a run, and the decision whether a plan reads data. Functions that read files and return values;
// thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/file.h"
#include "io/hub/hub_cache.h"
#include "io/text/tokenizer.h"
#include "run/model_source.h"
#include "run/run_purpose.h"

namespace plimsoll {

struct TokenizerSource {
  std::unique_ptr<Tokenizer> tokenizer =
      {};  // none for --dataset_name dummy and for a plan that reads no data
  std::string folder = {};
};

// Returns the folder of the tokenizer: --tokenizer_name, else that of the adapter or model; "" for none. A plan
// without training data does not look for --tokenizer_name.
std::string find_tokenizer_folder(const Arguments& arguments, RunPurpose purpose, const ModelSource& model,
                                  const HubEnvironment& hub, FileSystem& files);

// Decides whether the run reads data. Adds a note about data that a plan is given but cannot read.
// `tokenizer_folder`: as find_tokenizer_folder() returns it.
DataUse choose_data_use(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                        const std::string& tokenizer_folder, FileSystem& files, Diagnostics& diagnostics);

// Loads the tokenizer from its folder. Errors: kUsage if `folder` is ""; kBadData if its ids exceed the model's
// vocabulary.
TokenizerSource load_tokenizer(const std::string& folder, const ModelConfig& config);

// Returns the largest number of tokens that a text may have: the number that the arguments state, but no more than the
// model has positions.
int64_t max_seq_length(const Arguments& arguments, const ModelConfig& config);

// Warns if that is less than the arguments state.
void warn_of_cut_length(const Arguments& arguments, const ModelConfig& config, Diagnostics& diagnostics);

}  // namespace plimsoll
