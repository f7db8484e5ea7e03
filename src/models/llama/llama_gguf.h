// The names of tensors and the metadata of the Llama family in a GGUF file, the format of llama.cpp. Mistral uses those of Llama.
// Thread-safe: constant data.
#pragma once

#include "models/gguf_form.h"

namespace plimsoll {

const GgufForm& llama_gguf_form();
const GgufForm& qwen2_gguf_form();
const GgufForm& qwen3_gguf_form();

}  // namespace plimsoll
