#!/usr/bin/env python3
"""Checks that methods that save memory reach the accuracy of their counterparts in Hugging Face's Trainer, over several seeds.

usage: accuracy.py PROGRAM MODEL_FOLDER TRAIN.tsv VALIDATION.tsv [--methods adamw,adafactor,...] [--steps 500] [--seeds 5]
                   [--device cuda:0] [--python PYTHON] [--out FOLDER]

MODEL_FOLDER contains a pretrained BERT with its tokenizer, the files have the columns sentence and label (data/demo has all
three after `make demo`). A seed changes the order of the rows, dropout and the head. A method passes if its mean accuracy over
the seeds is not below Trainer's lowest seed; the table also gives Welch's t of the two means. The exit code is 1 if a method does
not pass. Methods: adamw, adafactor, adamw_8bit (bitsandbytes), lora (PEFT), bf16 (weights only in bf16, without fp32 masters).
"""
import argparse
import json
import math
import os
import statistics
import sys

import runs

SETTINGS = {"learning_rate": 1e-4, "weight_decay": 0.01, "per_device_train_batch_size": 32, "per_device_eval_batch_size": 128,
            "logging_steps": 50}


def with_adapters(model):
    from peft import LoraConfig, TaskType, get_peft_model
    return get_peft_model(model, LoraConfig(task_type=TaskType.SEQ_CLS, r=8, lora_alpha=16, lora_dropout=0.1,
                                            target_modules="all-linear"))


# For each method: the arguments of both programs, the further arguments of Plimsoll, and the parameters of TrainerRuns.run(),
# which runs Trainer.
METHODS = {
    "adamw": ({}, {}, {}),
    "adafactor": ({"optim": "adafactor"}, {}, {}),
    "adamw_8bit": ({"optim": "adamw_8bit"}, {}, {}),
    "lora": ({"learning_rate": 1e-3},
             {"lora_r": 8, "lora_alpha": 16, "lora_dropout": 0.1, "lora_target_modules": "all-linear"}, {"adapt": with_adapters}),
    "bf16": ({}, {"dtype": "bfloat16"}, {"dtype": "bfloat16"}),
}


def settings_of(words, method):
    return {**SETTINGS, "max_steps": words.steps, **METHODS[method][0]}


def peer_accuracies(words):
    trainer = runs.TrainerRuns(words.model, words.train, words.device)
    evaluation = trainer.tokens_of(runs.read_rows(words.validation))
    result = {}
    for method in words.methods.split(","):
        result[method] = [trainer.run(seed, settings_of(words, method), evaluation, **METHODS[method][2])[1]
                          for seed in range(1, words.seeds + 1)]
        print(f"Trainer {method}: {result[method]}", file=sys.stderr, flush=True)
    print("\n" + json.dumps(result))


def our_accuracies(words, method):
    arguments = {**settings_of(words, method), **METHODS[method][1]}
    return [runs.plimsoll_run(words.program, words.model, words.train, words.device, 100 + seed, arguments, words.validation)[1]
            for seed in range(1, words.seeds + 1)]


def welch_t(a, b):
    return (statistics.fmean(a) - statistics.fmean(b)) / math.sqrt(statistics.variance(a) / len(a) + statistics.variance(b) / len(b))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("train")
    parser.add_argument("validation")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", default="accuracy")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    unknown = set(words.methods.split(",")) - set(METHODS)
    if unknown:
        parser.error(f"no such method: {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    if words.seeds < 2:
        parser.error(f"--seeds {words.seeds}: a spread needs at least 2")
    if words.peer:
        return peer_accuracies(words)
    words.program = runs.devices.measured_program(words.program)
    os.makedirs(words.out, exist_ok=True)
    # The two programs run one after the other. Running them at the same time would save nothing, because both need the
    # device.
    peers = runs.answer_of(runs.start_peer(words.python, sys.argv[0], sys.argv[1:], words.device))
    ours = {method: our_accuracies(words, method) for method in words.methods.split(",")}
    with open(os.path.join(words.out, "accuracy.json"), "w") as file:
        json.dump({"steps": words.steps, "device": words.device, "trainer": peers, "plimsoll": ours}, file, indent=1)
    print(f"validation accuracy after {words.steps} steps of 32 on {words.device}, {words.seeds} seeds: mean (lowest to highest)")
    good = True
    for method, mine in ours.items():
        other = peers[method]
        reached = statistics.fmean(mine) >= min(other)
        good = good and reached
        spread = lambda values: f"{statistics.fmean(values):.4f} ({min(values):.4f} to {max(values):.4f})"
        print(f"  {method:<12} Trainer {spread(other)}   Plimsoll {spread(mine)}   t {welch_t(mine, other):+.2f}   "
              f"{'reached' if reached else 'NOT reached'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
