#!/usr/bin/env python3
"""Measures how training scales from one GPU of this machine to several.

usage: many.py PROGRAM [--gpus 2] [--cases NAMES] [--rounds 2] [--with "NAME=VALUE ..."]... [--more "ARGUMENTS"]
               [--out FILE]

For each case the program trains on one GPU and on --gpus GPUs in turns, --rounds times, and for each --with once more on --gpus GPUs
with these environment variables: NCCL_P2P_DISABLE=1 forbids the direct links between the GPUs. The models have random weights and the rows random ids;
nothing is saved. A rate is that between the first third and the end of the steps, when all kernels have been measured and captured.
Memory is the peak that NVML reports for each GPU, minus its use before the run. The table has, per case, the median rates in samples/s with
their ranges, the efficiency (the rate on N GPUs as a share of N times the rate on one), the planned memory of a rank, and the
largest measured one. The mean loss must be that of a model that knows nothing, within 25 %, otherwise the run does not count.
It needs pynvml.
"""
import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402

MIB = 2**20


def classifier(name, batch, length, steps, precision):
    return dict(batch=batch, steps=steps, loss=math.log(2), words=["--config_name", name, "--dummy_seq_length", str(length), precision])


def language(name, batch, length, steps, classes):
    return dict(batch=batch, steps=steps, loss=math.log(classes), words=[
        "--problem_type", "causal_lm", "--config_name", name, "--block_size", str(length), "--dummy_seq_length", str(length), "--bf16"])


CASES = {
    "bert32": classifier("bert-large-uncased", 32, 512, 60, "--bf16"),
    "bert4": classifier("bert-large-uncased", 4, 512, 240, "--fp16"),
    "gpt2": language("gpt2", 16, 1024, 150, 50257),
    "llama": language("TinyLlama-1.1B-Chat-v1.0", 4, 2048, 60, 32000),
}


class Gauges:
    """The peak of the memory in use on each GPU from its start to its end, minus the use before, in MiB."""

    def __init__(self, count):
        import pynvml
        pynvml.nvmlInit()
        self.nvml, self.cards = pynvml, [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]

    def used(self):
        return [self.nvml.nvmlDeviceGetMemoryInfo(card, version=self.nvml.nvmlMemory_v2).used for card in self.cards]

    def __enter__(self):
        self.before, self.ended = self.used(), threading.Event()
        self.peaks = list(self.before)

        def poll():
            while not self.ended.wait(0.02):
                self.peaks = [max(pair) for pair in zip(self.peaks, self.used())]
        self.thread = threading.Thread(target=poll)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def mib(self):
        return [round((peak - before) / MIB, 1) for peak, before in zip(self.peaks, self.before)]


def train(program, case, gpus, more, variables, count):
    """Runs one case on `gpus` GPUs and returns its figures."""
    with tempfile.TemporaryDirectory() as folder, Gauges(count) as gauges:
        steps = case["steps"]
        command = [program, "train", *case["words"], "--dataset_name", "dummy", "--dummy_num_samples", str(case["batch"] * gpus * 8),
                   "--per_device_train_batch_size", str(case["batch"]), "--max_steps", str(steps), "--logging_steps", str(steps // 12),
                   "--logging_first_step", "--include_num_input_tokens_seen", "all", "--learning_rate", "1e-6", "--save_strategy", "no", "--disable_tqdm", "--output_dir", folder,
                   "--nproc_per_node", str(gpus), *(["--device", "cuda:0"] if gpus == 1 else []), *more]
        environment = dict(os.environ, **dict(pair.split("=", 1) for pair in variables.split()))
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise SystemExit(f"many.py: exit code {done.returncode} of {shlex.join(command)}\n{done.stderr[-3000:]}")
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
            records = [r for r in map(json.loads, file) if "loss" in r and "train_runtime" in r]
        with open(os.path.join(folder, "memory.json"), encoding="utf-8") as file:
            memory = json.load(file)
    device = devices.plimsoll_device(done.stderr) or "unknown"
    if not device.startswith("cuda") or (gpus > 1) != (f" of {gpus}" in device):
        raise SystemExit(f"many.py: the run used {device}")
    mean = statistics.mean(r["loss"] for r in records)
    if abs(mean - case["loss"]) > 0.25 * case["loss"]:
        raise SystemExit(f"many.py: the mean loss is {mean:.3f}, not near {case['loss']:.3f}")
    settled = [r for r in records if r["step"] >= steps // 3]
    first, last = settled[0], settled[-1]
    rate = case["batch"] * gpus * (last["step"] - first["step"]) / (last["train_runtime"] - first["train_runtime"])
    return dict(rate=rate, loss=last["loss"], planned=memory["predicted_total_bytes"] / MIB, measured=gauges.mib(),
                device=device)


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--with", action="append", default=[], dest="variants")
    parser.add_argument("--more", default="")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    more = shlex.split(given.more)
    kinds = [(1, "")] + [(given.gpus, variables) for variables in ["", *given.variants]]
    results = {}
    print(f"| case | GPUs | variables | samples/s | efficiency | planned MiB per rank | measured MiB per GPU |\n|{'---|' * 7}", flush=True)
    for name in given.cases.split(","):
        runs = {kind: [] for kind in kinds}
        for _ in range(given.rounds):
            for gpus, variables in kinds:
                runs[gpus, variables].append(train(given.program, CASES[name], gpus, more, variables, given.gpus))
        one = statistics.median(r["rate"] for r in runs[1, ""])
        for (gpus, variables), of_kind in runs.items():
            rates = [r["rate"] for r in of_kind]
            share = statistics.median(rates) / (gpus * one)
            measured = [max(r["measured"][i] for r in of_kind) for i in range(gpus)]
            print(f"| {name} | {gpus} | {variables} | {spread(rates)} | "
                  f"{'' if gpus == 1 else f'{100 * share:.1f} %'} | {of_kind[0]['planned']:.1f} | {', '.join(f'{m:.1f}' for m in measured)} |",
                  flush=True)
            results[f"{name} {gpus} {variables}".strip()] = of_kind
        if given.out:
            with open(given.out, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
