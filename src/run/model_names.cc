#include "run/model_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/edit_distance.h"
#include "models/architecture.h"
#include "models/config.h"

namespace plimsoll {
namespace {

struct ForeignName {
  std::string_view part;
  std::string_view architecture;
};

// Parts of model names that identify an architecture wherever they occur, because they are long enough to be unambiguous. If one part
// contains another, the longer one comes first.
constexpr ForeignName kAnywhere[] = {
    {"xlm-roberta-xl", "XLM-RoBERTa-XL"},
    {"xlm-roberta-xxl", "XLM-RoBERTa-XL"},
    {"deberta", "DeBERTa"},
    {"mobilebert", "MobileBERT"},
    {"squeezebert", "SqueezeBERT"},
    {"albert", "ALBERT"},
    {"flaubert", "FlauBERT"},
    {"convbert", "ConvBERT"},
    {"megatron", "Megatron"},
    {"bigbird", "BigBird"},
    {"longformer", "Longformer"},
    {"mpnet", "MPNet"},
    {"mixtral", "Mixtral"},
    {"gemma", "Gemma"},
    {"bloom", "BLOOM"},
    {"falcon", "Falcon"},
    {"pythia", "GPT-NeoX"},
    {"xlnet", "XLNet"},
    {"layoutlm", "LayoutLM"},
    {"reformer", "Reformer"},
    {"roformer", "RoFormer"},
    {"nystromformer", "Nystromformer"},
    {"pegasus", "Pegasus"},
    {"whisper", "Whisper"},
    {"ernie", "ERNIE"},
};

// Parts of a model's name that identify an architecture only if they are a whole word of the name. A number may follow the part, as in
// "t5", "opt-125m" and "phi2".
constexpr ForeignName kWords[] = {
    {"gpt", "GPT"},     {"t", "T5"},          {"mt", "mT5"},        {"bart", "BART"},
    {"mbart", "mBART"}, {"opt", "OPT"},       {"xlm", "XLM"},       {"phi", "Phi"},
    {"esm", "ESM"},     {"rwkv", "RWKV"},     {"mamba", "Mamba"},   {"clip", "CLIP"},
    {"vit", "ViT"},     {"funnel", "Funnel"}, {"canine", "CANINE"}, {"luke", "LUKE"},
};

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

// Returns the part of a Hugging Face Hub name after the organization, in lower case.
std::string model_part(std::string_view name) {
  return lower_case(name.substr(name.rfind('/') + 1));
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

std::string_view foreign_word(std::string_view word) {
  if (find_architecture(word) != nullptr) return {};
  const size_t letters = std::min(word.find_first_of("0123456789"), word.size());
  const std::string_view digits = word.substr(letters);
  for (const ForeignName& row : kWords) {
    if (word.substr(0, letters) != row.part) continue;
    // The word "t" or "mt" identifies T5 or mT5 only if the number 5 follows.
    if (row.part.size() <= 2 && digits != "5") continue;
    return row.architecture;
  }
  return {};
}

std::string trained_architectures() {
  std::vector<std::string_view> names;
  for (const Architecture* architecture : architectures()) names.push_back(architecture->model_type);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the presets that differ from the name by at most two typing errors. Names with different digits, or with "cased" instead of
// "uncased", are different models and do not match: "gpt2" is not a misspelled "gpt3".
std::vector<std::string> presets_of_typing_error(const std::string& name) {
  constexpr size_t kMostErrors = 2;
  const auto digits = [](std::string text) {
    std::erase_if(text, [](char c) { return c < '0' || c > '9'; });
    return text;
  };
  const auto is_uncased = [](const std::string& text) { return text.find("uncased") != std::string::npos; };
  const auto is_cased = [&](const std::string& text) {
    return !is_uncased(text) && text.find("cased") != std::string::npos;
  };
  std::vector<std::string> nearest;
  constexpr size_t kLongestName = 64;
  if (name.size() > kLongestName) return nearest;
  size_t fewest = kMostErrors + 1;
  for (const std::string& preset : preset_names()) {
    const std::string own = model_part(preset);
    if (digits(own) != digits(name) || (is_cased(name) && is_uncased(own)) ||
        (is_uncased(name) && is_cased(own))) {
      continue;
    }
    const size_t errors = edit_distance(name, own);
    if (errors > kMostErrors || errors > fewest) continue;
    if (errors < fewest) nearest.clear();
    fewest = errors;
    nearest.push_back(preset);
  }
  return nearest;
}

// Returns the name without hyphens, dots and other separators.
std::string letters_and_digits(std::string text) {
  std::erase_if(text, [](char c) { return !is_letter_or_digit(c); });
  return text;
}

// Returns true if the name differs from that of a preset only by separators or case, as "gpt-2" does from "gpt2".
bool is_spelling_of_preset(const std::string& model) {
  const std::string wanted = letters_and_digits(model);
  return std::ranges::any_of(preset_names(), [&](const std::string& preset) {
    return letters_and_digits(model_part(preset)) == wanted;
  });
}

}  // namespace

std::string_view foreign_architecture(std::string_view name) {
  std::string model = model_part(name);
  if (is_spelling_of_preset(model)) return {};
  for (const ForeignName& row : kAnywhere) {
    if (model.find(row.part) != std::string::npos) return row.architecture;
  }
  // Removes the name of an architecture that this version supports ("xlm-roberta"), so that its parts are not taken for other
  // architectures.
  for (const Architecture* architecture : architectures()) {
    if (architecture->model_type.find('-') == std::string_view::npos) continue;
    if (const size_t at = model.find(architecture->model_type); at != std::string::npos)
      model.erase(at, architecture->model_type.size());
  }
  for (size_t begin = 0; begin < model.size();) {
    const auto end = static_cast<size_t>(std::find_if_not(model.begin() + static_cast<std::ptrdiff_t>(begin),
                                                          model.end(), is_letter_or_digit) -
                                         model.begin());
    if (const auto found = foreign_word(std::string_view(model).substr(begin, end - begin)); !found.empty())
      return found;
    begin = end + 1;
  }
  return {};
}

std::vector<std::string> similar_presets(std::string_view name) {
  const std::string wanted = letters_and_digits(model_part(name));
  std::vector<std::string> similar;
  if (wanted.size() < 4) return similar;
  for (const std::string& preset : preset_names()) {
    const std::string own = letters_and_digits(model_part(preset));
    if (own.starts_with(wanted) || wanted == own) similar.push_back(preset);
  }
  if (similar.empty()) similar = presets_of_typing_error(model_part(name));
  // A shortened name such as "bert-base" usually means the uncased model, so the uncased models are suggested first.
  std::ranges::stable_partition(similar,
                                [](const std::string& preset) { return preset.ends_with("-uncased"); });
  return similar;
}

std::string resolve_model(FileSystem& files, const HubEnvironment& hub, const std::string& name,
                          const std::string& revision, const FolderArgument& argument) {
  try {
    return resolve_model_folder(files, hub, name, revision, argument);
  } catch (const Error& error) {
    // For a path, and for a name with a wrong revision, the original error is more helpful than a suggestion of other names.
    if (!is_hub_name(name) || files.status(name) || find_preset(name)) throw;
    if (const std::string_view foreign = foreign_architecture(name); !foreign.empty()) {
      throw_error(
          ErrorCode::kUsage,
          "{} '{}': by its name the architecture is {}; this version trains {}. Choose one of these, such as "
          "bert-base-uncased. ('{}' is neither a folder nor in Hugging Face's cache.)",
          argument.name, name, foreign, trained_architectures(), name);
    }
    // A name with an organization is complete, so no preset is suggested for it.
    const bool is_short = name.find('/') == std::string::npos;
    if (const std::vector<std::string> similar = similar_presets(name); is_short && !similar.empty()) {
      throw_error(ErrorCode::kUsage,
                  "{} '{}': there is no folder and no model of this name, did you mean '{}'?", argument.name,
                  name, fmt::join(similar, "' or '"));
    }
    throw;
  }
}

}  // namespace plimsoll
