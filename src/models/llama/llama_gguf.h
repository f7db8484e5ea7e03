// The forms of the Llama family in a GGUF file. Mistral has that of Llama. Thread-safe: constant data.
#pragma once

#include "models/gguf_form.h"

namespace plimsoll {

const GgufForm& llama_gguf_form();
const GgufForm& qwen2_gguf_form();
const GgufForm& qwen3_gguf_form();

}  // namespace plimsoll
