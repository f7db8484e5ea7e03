// The names of tensors and the metadata of GPT-2 in a GGUF file, the format of llama.cpp. Thread-safe: constant data.
#pragma once

#include "models/gguf_form.h"

namespace plimsoll {

const GgufForm& gpt2_gguf_form();

}  // namespace plimsoll
