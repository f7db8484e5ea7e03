"""Parity cases of the Llama family with unusual settings: one key-value head, head sizes other than hidden_size / num_attention_heads,
with and without biases, attention windows shorter than the texts, and every type of rotary embedding, in both the old and the new form of
the configuration."""
import json
import os

from transformers import (BertTokenizerFast, LlamaConfig, LlamaForSequenceClassification, LlamaForTokenClassification, MistralConfig,
                          MistralForSequenceClassification, Qwen2Config, Qwen2ForSequenceClassification, Qwen3Config,
                          Qwen3ForSequenceClassification)

from tiny import label_names, vocabulary, write_model
from tokens import NAMES

SGD = {"optim": "sgd", "learning_rate": 0.05}
TOKENIZER = {"model_input_names": ["input_ids", "attention_mask"]}
SIZES = {"vocab_size": len(vocabulary()), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "max_position_embeddings": 64, "initializer_range": 0.15, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
BYTE_SIZES = {**SIZES, "vocab_size": 264}
LABELS = {"num_labels": 3, **label_names(3)}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 24}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 16}
# LongRoPE uses the long factors for texts longer than original_max_position_embeddings. All texts have more than 3 tokens.
LONGROPE = {"rope_type": "longrope", "rope_theta": 50.0, "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [1.0, 1.5, 2.5, 4.0],
            "original_max_position_embeddings": 3}


def write_tokenizer_json(folder):
    """Writes a tokenizer.json. Without this file, transformers would create another kind of tokenizer for Mistral."""
    tokenizer = BertTokenizerFast(os.path.join(folder, "vocab.txt"), do_lower_case=True)
    tokenizer.backend_tokenizer.save(os.path.join(folder, "tokenizer.json"))


MERGES = ["t h", "th e", "i n", "e r", "o n", "\u0120 a", "r e"]
PADDING = "<|endoftext|>"


def byte_tokens():
    """Returns the vocabulary: the padding token, a character for each byte (GPT-2's byte-level alphabet), and the results of the merges.
    """
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = [chr(byte) for byte in shown] + [chr(256 + i) for i in range(256 - len(shown))]
    return [PADDING, *characters, *(merge.replace(" ", "") for merge in MERGES)]


def write_byte_tokenizer(folder):
    """Writes a byte-level tokenizer as vocab.json and merges.txt, which transformers reads with Qwen's tokenizer class."""
    os.remove(os.path.join(folder, "vocab.txt"))
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as file:
        json.dump({token: i for i, token in enumerate(byte_tokens())}, file)
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(merge + "\n" for merge in MERGES))
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 64, "pad_token": PADDING}, file, indent=2)
        file.write("\n")


def old_form(folder):
    """Changes the configuration to the form of transformers 4, which has the keys rope_theta and rope_scaling instead of rope_parameters.
    """
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")


def write_models(folder):
    def write(name, model_class, config):
        write_model(os.path.join(folder, name), model_class, config, tokenizer=TOKENIZER)

    write("llama", LlamaForSequenceClassification,
          LlamaConfig(num_attention_heads=4, num_key_value_heads=1, head_dim=12, attention_bias=True, mlp_bias=True,
                      rope_parameters=LLAMA3, **SIZES, **LABELS))
    write("llama_regression", LlamaForSequenceClassification,
          LlamaConfig(num_attention_heads=4, num_key_value_heads=2, hidden_act="gelu_pytorch_tanh", rope_parameters=YARN,
                      tie_word_embeddings=True, num_labels=1, **SIZES))
    write("llama_tokens", LlamaForTokenClassification,
          LlamaConfig(num_attention_heads=4, num_key_value_heads=4, rope_parameters=LONGROPE, classifier_dropout=0.0, **SIZES, **NAMES))
    write("mistral", MistralForSequenceClassification,
          MistralConfig(num_attention_heads=4, num_key_value_heads=2, sliding_window=5,
                        rope_parameters={"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.0}, **SIZES, **LABELS))
    old_form(os.path.join(folder, "mistral"))
    write("qwen2", Qwen2ForSequenceClassification,
          Qwen2Config(num_attention_heads=4, num_key_value_heads=2, use_sliding_window=True, sliding_window=4, max_window_layers=1,
                      rope_parameters={"rope_type": "linear", "rope_theta": 1000.0, "factor": 3.0}, **BYTE_SIZES, **LABELS))
    old_form(os.path.join(folder, "qwen2"))
    write("qwen3", Qwen3ForSequenceClassification,
          Qwen3Config(num_attention_heads=4, num_key_value_heads=2, head_dim=12, attention_bias=False,
                      rope_parameters={"rope_type": "default", "rope_theta": 100.0}, **BYTE_SIZES, **LABELS))
    write_tokenizer_json(os.path.join(folder, "mistral"))
    for name in ("qwen2", "qwen3"):
        write_byte_tokenizer(os.path.join(folder, name))


CASES = [((f"llama-{problem}-{optimizer}", "llama", problem), settings) for problem in ("single", "regression")
         for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [((f"{model}-single-{optimizer}", model), settings) for model in ("mistral", "qwen2", "qwen3")
          for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [(("llama-tokens-adamw", "llama", "tokens"), {}),
          (("llama-pairs-adamw-accumulation3", "llama", "pairs"), {"gradient_accumulation_steps": 3}),
          (("llama-all-together", "llama", "pairs"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "label_smoothing_factor": 0.1})]
FIRST_BATCHES = [("llama", problem) for problem in ("single", "regression", "tokens")]
FIRST_BATCHES += [(model, "single") for model in ("mistral", "qwen2", "qwen3")]
