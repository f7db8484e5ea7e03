// The kinds of tags of words, which --task_name takes besides the tasks of GLUE. Pure functions.
#pragma once

#include <string_view>

namespace plimsoll {

// Returns true for named entities, parts of speech and chunks: the names of Hugging Face's run_ner.
constexpr bool is_tagging_task(std::string_view name) {
  return name == "ner" || name == "pos" || name == "chunk";
}

}  // namespace plimsoll
