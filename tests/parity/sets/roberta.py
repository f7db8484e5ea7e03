"""Parity cases of RoBERTa with byte-level BPE (vocab.json, merges.txt) and XLM-RoBERTa with Unigram (tokenizer.json), for sequence and
token classification. Positions start after pad_token_id 1, and the texts of the problem `padding` contain the padding token."""
import json
import os
import re

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (RobertaConfig, RobertaForSequenceClassification, RobertaForTokenClassification, XLMRobertaConfig,
                          XLMRobertaForSequenceClassification)

from tiny import LABELS, Numbers, ODD_WORDS, WORDS, label_names, sentence, write_model
from tokens import NAMES

PROBLEMS = ("single", "pairs", "regression", "multi-label", "padding")
SGD = {"optim": "sgd", "learning_rate": 0.05}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
DATA = {"padding": ("padding.tsv", "single_label_classification", "")}


def write_data(folder):
    numbers = Numbers(47)
    with open(os.path.join(folder, "padding.tsv"), "w", encoding="utf-8") as file:
        file.write("sentence\tlabel\n")
        for _ in range(26):
            words = sentence(numbers, 16).split(" ")
            for _ in range(numbers.below(4)):
                words.insert(numbers.below(len(words) + 1), "<pad>")
            file.write(" ".join(words) + "\t" + LABELS[numbers.below(3)] + "\n")


def replace_tokenizer(path, files, config):
    os.remove(os.path.join(path, "vocab.txt"))
    for name, text in files.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(path, "tokenizer_config.json"), "w") as file:
        json.dump({"model_max_length": 64, **config}, file, indent=2)
        file.write("\n")


def byte_level_files():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    numbers = Numbers(48)
    tokenizer.train_from_iterator([sentence(numbers, 24) for _ in range(200)], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return {"vocab.json": json.dumps(model["vocab"], ensure_ascii=False) + "\n",
            "merges.txt": "#version: 0.2\n" + "".join(merge + "\n" for merge in merges)}, len(model["vocab"])


def unigram_files():
    """Makes a Unigram tokenizer whose vocabulary has letters and words. Longer pieces have higher scores."""
    letters = sorted(set("".join(WORDS + ODD_WORDS)) | set("abcdefghijklmnopqrstuvwxyz0123456789"))
    pieces = ["▁"] + letters + sorted({"▁" + word for word in WORDS}) + sorted({word for word in WORDS if len(word) > 3})
    vocabulary = [(token, 0.0) for token in SPECIAL[:4]] + [(piece, -1.0 - 4.0 / len(piece)) for piece in pieces]
    vocabulary = vocabulary + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
                                                             special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_special_tokens(SPECIAL)
    return {"tokenizer.json": re.sub(r"\n\s+", "\n", tokenizer.to_str(pretty=True)) + "\n"}, len(vocabulary)


SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 66,
         "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.15, "type_vocab_size": 1,
         "layer_norm_eps": 1e-5}


def write_models(folder):
    files, vocab_size = byte_level_files()
    for suffix, model_class, more in (("", RobertaForSequenceClassification, {"num_labels": 3, **label_names(3)}),
                                      ("_regression", RobertaForSequenceClassification, {"num_labels": 1, "hidden_act": "relu"}),
                                      ("_tokens", RobertaForTokenClassification, NAMES)):
        path = os.path.join(folder, "roberta" + suffix)
        write_model(path, model_class, RobertaConfig(vocab_size=vocab_size, **SIZES, **more))
        replace_tokenizer(path, files, {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": suffix == "_tokens"})
    files, vocab_size = unigram_files()
    path = os.path.join(folder, "xlm_roberta")
    write_model(path, XLMRobertaForSequenceClassification, XLMRobertaConfig(vocab_size=vocab_size, num_labels=3, **SIZES, **label_names(3)))
    replace_tokenizer(path, files, {"tokenizer_class": "XLMRobertaTokenizer"})


CASES = [((f"roberta-{problem}-{optimizer}", "roberta", problem), settings) for problem in PROBLEMS
         for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [(("roberta-tokens-adamw", "roberta", "tokens"), {}),
          (("roberta-single-adamw-accumulation3", "roberta"), {"gradient_accumulation_steps": 3}),
          (("roberta-all-together", "roberta", "pairs"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "label_smoothing_factor": 0.1}),
          (("xlm_roberta-pairs-adamw", "xlm_roberta", "pairs"), {}),
          (("xlm_roberta-padding-sgd", "xlm_roberta", "padding"), SGD)]
FIRST_BATCHES = [("roberta", problem) for problem in (*PROBLEMS, "tokens")] + [("xlm_roberta", "pairs"), ("xlm_roberta", "padding")]
