// The kinds of heads that a model may have, with the names that Hugging Face's tools give them. Constant data.
#pragma once

#include <string_view>

namespace plimsoll {

struct HeadKind {
  std::string_view class_suffix;    // the model's class is the architecture's prefix and this
  std::string_view description;     // description of a model with this head in tables and model cards
  std::string_view pipeline_tag;    // the hub's word for the task
  std::string_view peft_task_type;  // the task type in adapter_config.json
};

// One prediction per sequence: classes, sets of classes, or numbers.
inline constexpr HeadKind kSequenceClassification{.class_suffix = "ForSequenceClassification",
                                                  .description = "sequence classification",
                                                  .pipeline_tag = "text-classification",
                                                  .peft_task_type = "SEQ_CLS"};

}  // namespace plimsoll
