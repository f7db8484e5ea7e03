// The prediction heads of models, with their names in Hugging Face's tools, and the problem types (such as classification and
// regression) that each head supports. src/tasks implements the types. Constant data; thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "plimsoll/data.h"  // for kNoLabel

namespace plimsoll {

struct HeadKind {
  std::string_view
      // the suffix of the class names of models with this head in transformers; the prefix is the architecture
      class_suffix;
  std::string_view old_suffix;      // the suffix that older architectures use instead; may be empty
  std::string_view description;     // how tables and model cards describe a model with this head
  std::string_view pipeline_tag;    // the name of the task on the Hugging Face Hub
  std::string_view peft_task_type;  // the name of the task in the file adapter_config.json
  // true if the head predicts tokens of the vocabulary, which have no label names
  bool predicts_tokens = false;
  bool hides_tokens = false;  // true if the tokens to predict are masked in the input
};

// The head that makes one prediction per sequence: a class, a set of classes, or numbers.
inline constexpr HeadKind kSequenceClassificationHead{.class_suffix = "ForSequenceClassification",
                                                      .old_suffix = "",
                                                      .description = "sequence classification",
                                                      .pipeline_tag = "text-classification",
                                                      .peft_task_type = "SEQ_CLS"};

// The head that predicts one class per word of a text, at the word's first token.
inline constexpr HeadKind kTokenClassificationHead{.class_suffix = "ForTokenClassification",
                                                   .old_suffix = "",
                                                   .description = "token classification",
                                                   .pipeline_tag = "token-classification",
                                                   .peft_task_type = "TOKEN_CLS"};

// The head that predicts, at each token of a text, the token that follows it. Its classes are the vocabulary.
inline constexpr HeadKind kCausalLmHead{.class_suffix = "ForCausalLM",
                                        .old_suffix = "LMHeadModel",
                                        .description = "causal language modelling",
                                        .pipeline_tag = "text-generation",
                                        .peft_task_type = "CAUSAL_LM",
                                        .predicts_tokens = true};

// The head that predicts the tokens of a text that a mask hides. Its classes are the vocabulary. PEFT has no task type for this head.
inline constexpr HeadKind kMaskedLmHead{.class_suffix = "ForMaskedLM",
                                        .old_suffix = "",
                                        .description = "masked language modelling",
                                        .pipeline_tag = "fill-mask",
                                        .peft_task_type = "",
                                        .predicts_tokens = true,
                                        .hides_tokens = true};

enum class ProblemType : uint8_t {
  kSingleLabel,
  kMultiLabel,
  kRegression,
  kTokenClassification,
  kCausalLm,
  kMaskedLm
};

struct ProblemTypeRecord {
  ProblemType type;
  std::string_view name;
  const HeadKind* head = nullptr;
  // True if config.json may have this name as the value of `problem_type`. For the other types, the
  // model's class name determines the type.
  bool is_in_config = true;
};

inline constexpr std::array kProblemTypes{
    ProblemTypeRecord{ProblemType::kSingleLabel, "single_label_classification", &kSequenceClassificationHead},
    ProblemTypeRecord{ProblemType::kMultiLabel, "multi_label_classification", &kSequenceClassificationHead},
    ProblemTypeRecord{ProblemType::kRegression, "regression", &kSequenceClassificationHead},
    ProblemTypeRecord{ProblemType::kTokenClassification, "token_classification", &kTokenClassificationHead,
                      false},
    ProblemTypeRecord{ProblemType::kCausalLm, "causal_lm", &kCausalLmHead, false},
    ProblemTypeRecord{ProblemType::kMaskedLm, "masked_lm", &kMaskedLmHead, false},
};

constexpr const ProblemTypeRecord& record_of(ProblemType type) {
  return *std::ranges::find(kProblemTypes, type, &ProblemTypeRecord::type);
}

constexpr std::string_view problem_type_name(ProblemType type) {
  return record_of(type).name;
}

// The names of all types, separated by '|', as in the description of an argument: "a|b|c".
inline constexpr auto kProblemTypeNameList = [] {
  constexpr size_t kLength = [] {
    size_t length = 0;
    for (const ProblemTypeRecord& record : kProblemTypes) length += record.name.size() + 1;
    return length - 1;
  }();
  std::array<char, kLength> text{};
  size_t at = 0;
  for (const ProblemTypeRecord& record : kProblemTypes) {
    if (at > 0) text[at++] = '|';
    for (const char c : record.name) text[at++] = c;
  }
  return text;
}();
inline constexpr std::string_view kProblemTypeNames(kProblemTypeNameList.data(), kProblemTypeNameList.size());

// Returns the type with this name, or nothing for any other word.
constexpr std::optional<ProblemType> find_problem_type(std::string_view word) {
  const auto* found = std::ranges::find(kProblemTypes, word, &ProblemTypeRecord::name);
  if (found == kProblemTypes.end()) return std::nullopt;
  return found->type;
}

// Returns the type that follows from the name of a model's class, such as "BertForTokenClassification". Returns nothing if the
// class permits several types, which `problem_type` distinguishes, or has no head that Plimsoll supports.
constexpr std::optional<ProblemType> problem_type_of_class(std::string_view class_name) {
  for (const ProblemTypeRecord& record : kProblemTypes) {
    if (record.is_in_config) continue;
    const HeadKind& head = *record.head;
    if (class_name.ends_with(head.class_suffix)) return record.type;
    if (!head.old_suffix.empty() && class_name.ends_with(head.old_suffix)) return record.type;
  }
  return std::nullopt;
}

// The kinds of labels that the rows of a data set may have.

enum class LabelKind : uint8_t {
  kClass,    // one class per sequence, stored as its id: i32[B] in a batch of B sequences
  kClasses,  // any number of classes per sequence, stored as a 0 or 1 for each class: f32[B, num_labels]
  kNumbers,  // real numbers per sequence: f32[B, num_labels]
  // one class per word, stored at the first token of the word; all other tokens have kNoLabel: i32[T] for T tokens
  kClassPerToken,
  // for each token the next one of its sequence, and kNoLabel for the last: i32[T]; a data set does not store these labels
  kNextToken,
  // for each masked token the original one, and kNoLabel for all others: i32[T]; a data set does not store these labels
  kMaskedToken
};

// Returns true if there is a prediction for every token, and false if there is one for the whole sequence.
constexpr bool is_per_token(LabelKind kind) {
  return kind == LabelKind::kClassPerToken || kind == LabelKind::kNextToken ||
         kind == LabelKind::kMaskedToken;
}

// Returns true if the labels are tokens of the text, so that the data set needs no separate labels.
constexpr bool are_tokens(LabelKind kind) {
  return kind == LabelKind::kNextToken || kind == LabelKind::kMaskedToken;
}

// The values of --task_name for tagging the words of a text. Pure functions.

// Returns true for "ner" (named entities), "pos" (parts of speech) and "chunk", the task names of Hugging Face's script run_ner.
constexpr bool is_tagging_task(std::string_view name) {
  return name == "ner" || name == "pos" || name == "chunk";
}

}  // namespace plimsoll
