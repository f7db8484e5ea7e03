#!/usr/bin/env python3
"""Plimsoll and transformers' Trainer on a real checkpoint, dropout 0: both against Trainer in fp64.

    python3 tests/parity/compare.py --model DIR [--plimsoll build/plimsoll] [--steps 20]

DIR is a folder of a BERT or DistilBERT with its tokenizer, such as the MiniLM that the demo fetches; its new head is
initialised here, so that both start from one file. Trains on data/pairs.csv with AdamW, SGD, and accumulation; prints for
losses, gradient norms and weights the error of each engine and their ratio, and whether transformers opens the result and
computes the same logits.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from make_fixtures import HERE, base_arguments
from projections import norm, relative_error
from reference import load_model, run_reference, weights_of
from tiny import LABELS


def compare_by_hand(model, plimsoll):
    """Both engines on a real model: losses of 20 steps, and the weights, against fp64."""
    os.chdir(HERE)
    folder = tempfile.mkdtemp(prefix="parity-")
    torch.manual_seed(3)
    config_changes = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    net = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32, num_labels=3, id2label=dict(enumerate(LABELS)),
                                                             label2id={n: i for i, n in enumerate(LABELS)}, **config_changes)
    start = os.path.join(folder, "start")
    net.save_pretrained(start)
    AutoTokenizer.from_pretrained(model).save_pretrained(start)
    for name in ("vocab.txt", "tokenizer_config.json", "tokenizer.json"):
        if os.path.exists(os.path.join(model, name)):
            shutil.copy(os.path.join(model, name), start)
    for name, more in (("adamw", {"learning_rate": 5e-5}), ("sgd", {"optim": "sgd", "learning_rate": 0.05}),
                       ("adamw accumulation 3", {"learning_rate": 5e-5, "gradient_accumulation_steps": 3})):
        case = {"name": name, "arguments": base_arguments("bert", "pairs.csv", "single_label_classification", **more)}
        case["arguments"]["model_name_or_path"] = start
        exact, exact_weights = run_reference(case, torch.float64)
        single, single_weights = run_reference(case, torch.float32)
        before = weights_of(load_model(start, "single_label_classification", torch.float32))
        output = os.path.join(folder, "out-" + name.replace(" ", "-"))
        words = [plimsoll, "train", "--output_dir", output, "--save_strategy", "no"]
        for key, value in case["arguments"].items():
            words += [f"--{key}", str(value)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = [json.loads(line) for line in open(os.path.join(output, "log.jsonl"))]
        ours = [entry["loss"] for entry in log if "loss" in entry]
        norms = [entry["grad_norm"] for entry in log if "loss" in entry]
        our_weights = load_file(os.path.join(output, "model.safetensors"))
        update = norm([exact_weights[n] - before[n] for n in before])
        wrong = lambda weights: norm([weights[n].astype(np.float64) - exact_weights[n] for n in before]) / update
        reference = [entry["loss"] for entry in exact.steps]
        print(f"{name}: loss {reference[0]:.4f} -> {reference[-1]:.4f} over {len(reference)} steps")
        for what, mine, theirs in (
                ("loss", relative_error(ours, reference), relative_error([e["loss"] for e in single.steps], reference)),
                ("grad_norm", relative_error(norms, [e["grad_norm"] for e in exact.steps]),
                 relative_error([e["grad_norm"] for e in single.steps], [e["grad_norm"] for e in exact.steps])),
                ("weights", wrong(our_weights), wrong(single_weights))):
            print(f"  {what:10s} ours {mine:.2e}  Trainer fp32 {theirs:.2e}  ratio {mine / theirs:.2f}")
        again = AutoModelForSequenceClassification.from_pretrained(output, dtype=torch.float32)
        print(f"  from_pretrained opens the result; largest weight difference to the file "
              f"{max(float(np.abs(p.detach().numpy() - our_weights[n]).max()) for n, p in again.named_parameters()):.1e}")
    shutil.rmtree(folder)
