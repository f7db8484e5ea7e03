"""Makes the tiny checkpoints and data files of tests/parity. Pseudo-random numbers that depend only on a seed determine their content."""
import json
import os
import shutil

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, DistilBertConfig, DistilBertForSequenceClassification

from projections import mix

WORDS = """a an the and or of to in for with from on is are this that it as by not library package tool data file text
runtime documentation development program server client network shell system language parser python java rust game editor
font image sound video compiler debug kernel driver module support simple small fast secure common shared source header
format read write convert test format build manage display provide contain include allow version interface command line
user web mail database math graph tree""".split()
PIECES = ["##ing", "##ed", "##er", "##ly", "##able", "##ness"]
ODD_WORDS = ["Kernels", "parsing", "café", "XML-based", "zlib1g", "readable", "(see", "foo/bar)", "e.g.,", "naïve", "東京",
             "runtime's", "fastest", "~42%"]


def vocabulary():
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    words = list(dict.fromkeys(WORDS))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list(".,:;!?-/()'\"%~") + list(letters)
    tokens += ["##" + c for c in letters] + PIECES + [w for w in words if len(w) > 1]
    assert len(tokens) == len(set(tokens))
    return tokens


class Numbers:
    """A pseudo-random generator (splitmix64) whose numbers are the same on every machine and in every version of Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, limit):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        return int(mix(np.array([self.state], dtype=np.uint64))[0] >> np.uint64(11)) % limit


def sentence(numbers, longest):
    count = 2 + numbers.below(longest - 1)
    chosen = []
    for _ in range(count):
        chosen.append(ODD_WORDS[numbers.below(len(ODD_WORDS))] if numbers.below(8) == 0 else WORDS[numbers.below(len(WORDS))])
    return " ".join(chosen)


LABELS = ["bad", "good", "odd"]


def write_data(folder):
    os.makedirs(folder, exist_ok=True)
    numbers = Numbers(20)

    def lines(name, rows, text):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write("".join(text(row) for row in rows))

    def label():
        return LABELS[numbers.below(3)]

    def quoted(cell):
        return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\n') else cell

    for name, count in (("single.tsv", 26), ("single_validation.tsv", 9)):
        lines(name, [("sentence", "label")] + [(sentence(numbers, 24), label()) for _ in range(count)],
              lambda row: "\t".join(row) + "\n")
    lines("pairs.csv", [("sentence1", "sentence2", "label")] +
          [(sentence(numbers, 20), sentence(numbers, 20), label()) for _ in range(26)],
          lambda row: ",".join(quoted(cell) for cell in row) + "\n")
    # Targets are multiples of 1/8: exact in fp32 and in fp64.
    lines("regression.jsonl", [{"sentence": sentence(numbers, 24), "label": (numbers.below(41) - 12) / 8} for _ in range(26)],
          lambda row: json.dumps(row, ensure_ascii=False) + "\n")
    lines("multi_label.jsonl",
          [{"sentence": sentence(numbers, 24), "label": [name for name in LABELS if numbers.below(2)]} for _ in range(26)],
          lambda row: json.dumps(row, ensure_ascii=False) + "\n")


def label_names(num_labels):
    return {} if num_labels == 1 else {"id2label": dict(enumerate(LABELS)), "label2id": {n: i for i, n in enumerate(LABELS)}}


def write_model(path, model_class, config, seed=7, tokenizer=None):
    """Initialises a model of this configuration and writes its folder. `tokenizer`: further keys of tokenizer_config.json."""
    tokens = vocabulary()
    torch.manual_seed(seed)
    model = model_class(config)
    with torch.no_grad():  # Moves biases and norm weights away from 0 and 1, so that errors in their gradients are detected.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path)
    with open(os.path.join(path, "vocab.txt"), "w", encoding="utf-8") as f:
        f.write("".join(token + "\n" for token in tokens))
    with open(os.path.join(path, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 64,
                   "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]",
                   "mask_token": "[MASK]", **(tokenizer or {})}, f, indent=2)
        f.write("\n")


def write_models(folder):
    for suffix, num_labels in (("", 3), ("_regression", 1)):
        bert = BertConfig(vocab_size=len(vocabulary()), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=64, max_position_embeddings=64, hidden_dropout_prob=0.0,
                          attention_probs_dropout_prob=0.0, initializer_range=0.15, num_labels=num_labels, **label_names(num_labels))
        write_model(os.path.join(folder, "bert" + suffix), BertForSequenceClassification, bert)
        distilbert = DistilBertConfig(vocab_size=len(vocabulary()), dim=32, n_layers=2, n_heads=2, hidden_dim=64,
                                      max_position_embeddings=64, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0,
                                      initializer_range=0.15, num_labels=num_labels, **label_names(num_labels))
        write_model(os.path.join(folder, "distilbert" + suffix), DistilBertForSequenceClassification, distilbert)
