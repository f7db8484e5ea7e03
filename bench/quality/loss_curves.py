#!/usr/bin/env python3
"""Checks that training in fp32, bf16 and fp16 follows Hugging Face's Trainer: compares loss curves of a pretrained model on
real text with the spread of Trainer's own runs over seeds.

usage: loss_curves.py PROGRAM MODEL_FOLDER TRAIN.tsv [--steps 500] [--seeds 5] [--precisions fp32,bf16,fp16]
                      [--device cuda:0] [--python PYTHON] [--out FOLDER]

MODEL_FOLDER contains a pretrained BERT with its tokenizer, TRAIN.tsv has the columns sentence and label (data/demo has both
after `make demo`). Trainer runs in fp32, once per seed; a seed changes the order of the rows, dropout and the head. Plimsoll
runs once in each precision, with another seed. A curve is divided into 20 blocks of equal length, whose means are compared:
Trainer's runs have a mean m and a standard deviation s over the seeds in each block, and another run of the same distribution
would have t = (x - m) / (s sqrt(1 + 1/n)) with Student's distribution of n - 1 degrees of freedom. Requirements for each
precision, at a total level of 1 % (Bonferroni over the blocks): no block exceeds the two-sided bound, and the mean of the last
fifth is within the bound of a single comparison. Otherwise the exit code is 1. The table also gives the number of blocks between
Trainer's lowest and highest run: a run of the same distribution is there (n - 1) / (n + 1) of the time.
"""
import argparse
import json
import math
import os
import statistics
import sys

import runs

BLOCKS = 20
SETTINGS = {"learning_rate": 1e-4, "weight_decay": 0.01, "per_device_train_batch_size": 32, "logging_steps": 1}


def peer_curves(words):
    trainer = runs.TrainerRuns(words.model, words.train, words.device)
    curves = [trainer.run(seed, {**SETTINGS, "max_steps": words.steps})[0] for seed in range(1, words.seeds + 1)]
    print("\n" + json.dumps(curves))


def our_curve(words, precision):
    arguments = {**SETTINGS, "max_steps": words.steps, **({} if precision == "fp32" else {precision: None})}
    return runs.plimsoll_run(words.program, words.model, words.train, words.device, 77, arguments)[0]


def blocks_of(curve):
    size = len(curve) // BLOCKS
    return [statistics.fmean(curve[i * size:(i + 1) * size]) for i in range(BLOCKS)]


def judge(curves, ours):
    """Returns how far Plimsoll's curve deviates from Trainer's runs: t per block and of the last fifth, and the bounds of the test."""
    peers = [blocks_of(curve) for curve in curves]
    mine = blocks_of(ours)
    n = len(peers)

    def t_of(values, x):
        return (x - statistics.fmean(values)) / (statistics.stdev(values) * math.sqrt(1 + 1 / n))

    columns = list(zip(*peers))
    ts = [t_of(column, x) for column, x in zip(columns, mine)]
    last = BLOCKS // 5
    tail = t_of([statistics.fmean(peer[-last:]) for peer in peers], statistics.fmean(mine[-last:]))
    return {"blocks": mine, "t": ts, "worst_t": max(ts, key=abs), "last_fifth_t": tail,
            "inside": sum(min(column) <= x <= max(column) for column, x in zip(columns, mine)) / BLOCKS,
            "worst_bound": runs.student_bound(0.01 / BLOCKS, n - 1), "last_fifth_bound": runs.student_bound(0.01, n - 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("train")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--precisions", default="fp32,bf16,fp16")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", default="loss_curves")
    parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.peer:
        return peer_curves(words)
    words.program = runs.devices.measured_program(words.program)
    os.makedirs(words.out, exist_ok=True)
    peer = runs.start_peer(words.python, sys.argv[0], [words.program, words.model, words.train, "--steps", str(words.steps),
                                                       "--seeds", str(words.seeds), "--device", words.device], words.device)
    ours = {precision: our_curve(words, precision) for precision in words.precisions.split(",")}
    curves = runs.answer_of(peer)
    result = {"trainer": curves, "plimsoll": ours, "judged": {p: judge(curves, curve) for p, curve in ours.items()}}
    with open(os.path.join(words.out, "loss_curves.json"), "w") as file:
        json.dump(result, file)
    columns = list(zip(*(blocks_of(curve) for curve in curves)))
    print(f"mean loss of a fifth of {words.steps} steps on {words.device}; Trainer in fp32 over {words.seeds} seeds: lowest, mean, highest")
    fifths = [columns[i:i + BLOCKS // 5] for i in range(0, BLOCKS, BLOCKS // 5)]
    for i, fifth in enumerate(fifths):
        means = [statistics.fmean(values) for values in zip(*fifth)]
        mine = "  ".join(f"{p} {statistics.fmean(result['judged'][p]['blocks'][i * 4:i * 4 + 4]):.4f}" for p in ours)
        print(f"  {i + 1}: {min(means):.4f} {statistics.fmean(means):.4f} {max(means):.4f}   Plimsoll {mine}")
    good = True
    for precision, verdict in result["judged"].items():
        fine = abs(verdict["worst_t"]) <= verdict["worst_bound"] and abs(verdict["last_fifth_t"]) <= verdict["last_fifth_bound"]
        good = good and fine
        print(f"{precision}: {100 * verdict['inside']:.0f} % of the blocks within Trainer's lowest and highest; worst t "
              f"{verdict['worst_t']:+.2f} (bound {verdict['worst_bound']:.2f}), last fifth {verdict['last_fifth_t']:+.2f} "
              f"(bound {verdict['last_fifth_bound']:.2f}): {'within the spread' if fine else 'OUTSIDE the spread'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
