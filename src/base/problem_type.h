// The kinds of predictions of models: the heads, with the names that Hugging Face's tools give them, and the problem types that each head
// serves. src/tasks defines the meaning of each type. Constant data; thread-safe: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "plimsoll/data.h"  // kNoLabel

namespace plimsoll {

struct HeadKind {
  std::string_view
      class_suffix;  // the name of a model's class in transformers is the prefix of the architecture and this suffix
  std::string_view old_suffix;      // the ending that older architectures use instead, or empty
  std::string_view description;     // description of a model with this head in tables and model cards
  std::string_view pipeline_tag;    // the hub's word for the task
  std::string_view peft_task_type;  // the task type in adapter_config.json
  bool predicts_tokens = false;     // the outputs are the tokens of the vocabulary, which have no labels
  bool hides_tokens = false;        // the tokens that it predicts are hidden in its input
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

// The head that predicts the next token of a text at every token. Its classes are the vocabulary.
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
  // True if config.json states the name as its `problem_type`. Otherwise the model's class states the type.
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

// The names of all types, as a setting with choices lists them: "a|b|c".
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

// Returns the type that the name of a model's class states, as "BertForTokenClassification" does, or nothing if the
// class leaves the type to `problem_type` or has no head that Plimsoll knows.
constexpr std::optional<ProblemType> problem_type_of_class(std::string_view class_name) {
  for (const ProblemTypeRecord& record : kProblemTypes) {
    if (record.is_in_config) continue;
    const HeadKind& head = *record.head;
    if (class_name.ends_with(head.class_suffix)) return record.type;
    if (!head.old_suffix.empty() && class_name.ends_with(head.old_suffix)) return record.type;
  }
  return std::nullopt;
}

// The kinds of labels that the rows of a data set may have. Values only.

enum class LabelKind : uint8_t {
  kClass,          // one class: its id, i32[B] in a batch
  kClasses,        // any number of classes: 0 or 1 for each, f32[B, num_labels]
  kNumbers,        // real numbers, f32[B, num_labels]
  kClassPerToken,  // one class for each word: its id at the word's first token, i32[T], and kNoLabel at all others
  kNextToken,  // the next token of the sequence, i32[T], and kNoLabel at its last token; a data set stores no labels
  kMaskedToken  // the token that a mask hides, i32[T], and kNoLabel at all others; a data set stores no labels
};

// Returns true if every token of a sequence has a prediction, instead of the sequence as a whole.
constexpr bool is_per_token(LabelKind kind) {
  return kind == LabelKind::kClassPerToken || kind == LabelKind::kNextToken ||
         kind == LabelKind::kMaskedToken;
}

// Returns true if the labels are tokens of the text itself.
constexpr bool are_tokens(LabelKind kind) {
  return kind == LabelKind::kNextToken || kind == LabelKind::kMaskedToken;
}

// The kinds of tags of words, which --task_name takes besides the tasks of GLUE. Pure functions.

// Returns true for named entities, parts of speech and chunks: the names of Hugging Face's run_ner.
constexpr bool is_tagging_task(std::string_view name) {
  return name == "ner" || name == "pos" || name == "chunk";
}

}  // namespace plimsoll
