#!/usr/bin/env python3
"""Writes model_classes.inc: the tokenizer class that transformers gives to each model type.

    python3 make_model_classes.py            (needs the package `transformers`)

A row is PLIMSOLL_MODEL_CLASS(model_type, class), sorted by model type. The class is "" for a model whose tokenizer.json is used as it is,
whatever class its files name. Model types whose class Plimsoll does not support are left out. PLIMSOLL_FIXED_CLASS(model_type) lists
the model types whose files are known to name a wrong class.
"""

import os
import pathlib

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import transformers  # noqa: E402
from transformers.models.auto import tokenization_auto as auto  # noqa: E402

WORD_PIECE = ["Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "Lxmert", "LayoutLM", "DPRContextEncoder", "DPRQuestionEncoder", "DPRReader",
              "ConvBert", "RetriBert", "Realm", "MPNet", "Funnel", "Splinter", "LayoutLMv2"]
BUILT = ["GPT2", "Roberta", "Bart", "Qwen2", "Llama", "XLMRoberta", "GPTNeoX", "Gemma", "T5", "Camembert"]
GENERIC = ["TokenizersBackend", "MistralCommonBackend", "PreTrainedTokenizerFast"]


def main():
    rows, fixed = [], []
    for model_type, name in sorted(auto.TOKENIZER_MAPPING_NAMES.items()):
        if name is None:
            continue
        known = name.removesuffix("Fast").removesuffix("Tokenizer")
        if name in GENERIC:
            rows.append(f'PLIMSOLL_MODEL_CLASS("{model_type}", "")')
        elif known in WORD_PIECE + BUILT:
            rows.append(f'PLIMSOLL_MODEL_CLASS("{model_type}", "{known}Tokenizer")')
        else:
            continue
        if model_type in auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS and name not in GENERIC:
            fixed.append(f'PLIMSOLL_FIXED_CLASS("{model_type}")')
    text = f"// Written by make_model_classes.py from transformers {transformers.__version__}. Do not edit.\n"
    pathlib.Path(__file__).with_name("model_classes.inc").write_text(text + "\n".join(rows + fixed) + "\n")


if __name__ == "__main__":
    main()
