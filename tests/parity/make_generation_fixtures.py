#!/usr/bin/env python3
"""Makes generation.json, the results of transformers' generate() for tiny language models, and the checkpoints of these models.

    python3 tests/parity/make_generation_fixtures.py        # needs torch and transformers 5

The cases are greedy decoding, logits processors and beam search, in fp32 with eager attention.
"""
import json
import os

import torch
from transformers import (BertTokenizerFast, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)
import transformers

from tiny import vocabulary, write_model

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENIZER = {"model_input_names": ["input_ids", "attention_mask"]}
PROMPTS = ["the film was great", "a bad movie", "this is the best story of the year and", "good"]
OPTIONS = [{}, {"num_beams": 4}, {"num_beams": 8, "num_return_sequences": 3, "length_penalty": 0.5},
           {"num_beams": 3, "early_stopping": True}, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2}, {"min_new_tokens": 6}]
NEW_TOKENS = 24


def sizes(**more):
    return dict(vocab_size=len(vocabulary()), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                max_position_embeddings=64, initializer_range=0.3, pad_token_id=0, bos_token_id=2, eos_token_id=3, **more)


MODELS = {
    "gpt2_lm": (GPT2LMHeadModel, GPT2Config(vocab_size=len(vocabulary()), n_positions=64, n_embd=32, n_layer=2, n_head=4,
                                            initializer_range=0.3, pad_token_id=0, bos_token_id=2, eos_token_id=3)),
    "llama_lm": (LlamaForCausalLM, LlamaConfig(**sizes(num_key_value_heads=1, rope_parameters={
        "rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}))),
    "mistral_lm": (MistralForCausalLM, MistralConfig(**sizes(num_key_value_heads=2, sliding_window=6))),
    "qwen3_lm": (Qwen3ForCausalLM, Qwen3Config(**sizes(num_key_value_heads=2, head_dim=16, tie_word_embeddings=True))),
}


def main():
    os.chdir(HERE)
    torch.set_num_threads(1)
    cases = []
    for name, (kind, config) in MODELS.items():
        torch.manual_seed(len(name))
        path = f"models/{name}"
        write_model(path, kind, config, tokenizer=TOKENIZER)
        tokenizer = BertTokenizerFast.from_pretrained(path)
        model = kind.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).eval()
        end = config.eos_token_id
        for options in OPTIONS:
            texts = []
            for prompt in PROMPTS:
                ids = tokenizer(prompt, return_tensors="pt")
                rows = model.generate(input_ids=ids.input_ids, attention_mask=ids.attention_mask, max_new_tokens=NEW_TOKENS, do_sample=False,
                                      **options)
                new = [row[ids.input_ids.shape[1]:].tolist() for row in rows]
                texts.append([row[:row.index(end) + 1] if end in row else row for row in new])
            cases.append({"model": name, "options": options, "texts": texts})
    with open("generation.json", "w") as file:
        json.dump({"made_with": {"torch": torch.__version__, "transformers": transformers.__version__}, "prompts": PROMPTS,
                   "new_tokens": NEW_TOKENS, "cases": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
