"""Parity cases of ModernBERT with unusual settings: attention windows shorter than the texts, three layers with global attention in every
second one or in an irregular list of layers, with and without biases, both kinds of pooling, and both the old and the new form of the
configuration. The tokenizer is of the kind that published checkpoints have: byte-level BPE in a tokenizer.json, with [CLS] and [SEP]."""
import json
import os
import re

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ModernBertConfig, ModernBertForSequenceClassification, ModernBertForTokenClassification

from tiny import Numbers, label_names, sentence, write_model
from tokens import NAMES

SGD = {"optim": "sgd", "learning_rate": 0.05}
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
BIASES = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}


def byte_level_file():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    numbers = Numbers(61)
    tokenizer.train_from_iterator([sentence(numbers, 24) for _ in range(200)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
                                                             special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return re.sub(r"\n\s+", "\n", tokenizer.to_str(pretty=True)) + "\n", tokenizer.get_vocab_size()


def old_form(folder):
    """Changes the configuration to the form of transformers 4, in which published models are stored."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    rope = config.pop("rope_parameters")
    config["global_rope_theta"] = rope["full_attention"]["rope_theta"]
    config["local_rope_theta"] = rope["sliding_attention"]["rope_theta"]
    config["global_attn_every_n_layers"] = config.pop("layer_types")[1:].index("full_attention") + 1
    config["layer_norm_eps"] = config["norm_eps"]
    config["position_embedding_type"] = "absolute"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
        file.write("\n")


def write_models(folder):
    tokenizer, vocab_size = byte_level_file()
    sizes = {"vocab_size": vocab_size, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
             "max_position_embeddings": 64, "initializer_range": 0.15, "local_attention": 6, "pad_token_id": 3, "bos_token_id": 1,
             "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2, "tie_word_embeddings": True}
    layers = {"layer_types": ["full_attention", "sliding_attention", "full_attention"],
              "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1000.0},
                                  "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}}
    irregular = {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                 "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                                                        "original_max_position_embeddings": 16},
                                     "sliding_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0}}}

    def write(name, model_class, **settings):
        path = os.path.join(folder, name)
        write_model(path, model_class, ModernBertConfig(**{**sizes, **settings}))
        os.remove(os.path.join(path, "vocab.txt"))
        with open(os.path.join(path, "tokenizer.json"), "w", encoding="utf-8") as file:
            file.write(tokenizer)
        with open(os.path.join(path, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64, "cls_token": "[CLS]", "sep_token": "[SEP]",
                       "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]",
                       "model_input_names": ["input_ids", "attention_mask"]}, file, indent=2)
            file.write("\n")
        return path

    write("modernbert", ModernBertForSequenceClassification, num_labels=3, **label_names(3), **layers)
    old_form(write("modernbert_regression", ModernBertForSequenceClassification, num_labels=1, classifier_pooling="mean",
                   hidden_activation="silu", classifier_activation="tanh", local_attention=9, **BIASES, **layers))
    old_form(write("modernbert_mean", ModernBertForSequenceClassification, num_labels=3, classifier_pooling="mean", norm_bias=True,
                   local_attention=1, **label_names(3), **layers))
    write("modernbert_tokens", ModernBertForTokenClassification, attention_bias=True, classifier_bias=True, mlp_bias=True, **NAMES,
          **irregular)


CASES = [((f"modernbert-{problem}-{optimizer}", "modernbert", problem), settings)
         for problem in ("single", "regression", "multi-label", "tokens") for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [((f"modernbert_mean-single-{optimizer}", "modernbert_mean"), settings) for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [(("modernbert-pairs-adamw-accumulation3", "modernbert", "pairs"), {"gradient_accumulation_steps": 3}),
          (("modernbert-all-together", "modernbert", "pairs"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "label_smoothing_factor": 0.1}),
          (("modernbert_mean-all-together", "modernbert_mean", "pairs"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "gradient_accumulation_steps": 3})]
FIRST_BATCHES = [("modernbert", problem) for problem in ("single", "pairs", "regression", "multi-label", "tokens")]
FIRST_BATCHES += [("modernbert_mean", "single"), ("modernbert_mean", "pairs")]
