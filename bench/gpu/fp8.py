#!/usr/bin/env python3
"""Compares --fp8 with --bf16 of the same program on one GPU: tokens per second, memory and losses.

usage: fp8.py PROGRAM [--cases NAMES] [--pairs N]

The two precisions run alternately on the same GPU, with the same random weights and ids. The rate is measured from the
end of the first third of the steps to their end; memory is the peak that NVML reports for the card. The first losses
must agree within 2 %: the forward products of fp8 have relative errors of 4 % of independent signs, which a loss
averages over its tokens. Otherwise the case is not counted. Each precision runs with the default recomputation and
without any, because the fp8 values that the backward pass reads can be kept or computed again. It needs pynvml.
"""
import argparse
import statistics
import subprocess
import sys

from language import LORA, devices, lm, run_program

WIDE = ["--config_overrides", "num_hidden_layers=4,vocab_size=32000"]
# Per case: arguments, batch size, tokens per sequence and number of steps. The last two cases have layers as wide as
# those of a model with 7 or 8 billion parameters.
CASES = {
    "bert-large": dict(batch=32, length=512, steps=(60,), classes=2,
                       words=["--config_name", "bert-large-uncased", "--num_labels", "2", "--dummy_seq_length", "512"]),
    "gpt2-medium": dict(batch=16, length=1024, steps=(36,), words=lm("gpt2-medium", 1024)),
    "gpt2-xl": dict(batch=14, length=1024, steps=(18,), words=lm("gpt2-xl", 1024)),
    "llama-wide": dict(batch=8, length=2048, steps=(18,), words=lm("Llama-3.1-8B", 2048) + WIDE),
    "llama-lora": dict(batch=8, length=2048, steps=(18,), words=lm("Llama-3.1-8B", 2048) + WIDE + LORA),
}
RECOMPUTATIONS = {"default": [], "none": ["--recompute", "none"]}
LOSS_BOUND = 0.02


def compare(program, case, words, pairs):
    """Returns for bf16 and fp8 the median rate and the peak of memory, and the device of the runs."""
    runs = {"--bf16": [], "--fp8": []}
    for _ in range(pairs):
        for precision, figures in runs.items():
            figures.append(run_program(program, dict(case, precision=[precision, *words])))
            if wrong := devices.wrong_device("cuda:0", figures[-1]["device"]):
                raise RuntimeError(wrong)
    losses = [runs[precision][0]["loss"] for precision in runs]
    if abs(losses[1] / losses[0] - 1) > LOSS_BOUND:
        raise RuntimeError(f"the first losses are {losses[0]:.4f} in bf16 and {losses[1]:.4f} in fp8")
    rates = [statistics.median(run["rate"] for run in figures) for figures in runs.values()]
    used = " and ".join(sorted({run["device"] for figures in runs.values() for run in figures}))
    return rates, [max(run["memory"] for run in figures) for figures in runs.values()], used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--pairs", type=int, default=1)
    given = parser.parse_args()
    given.program = devices.measured_program(given.program)
    unknown = [name for name in given.cases.split(",") if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    print("| work | recompute | bf16, tokens/s | fp8 | speed | bf16, MiB | fp8 | memory |\n|---|---|---|---|---|---|---|---|")
    status = 0
    for name in given.cases.split(","):
        for recompute, words in RECOMPUTATIONS.items():
            try:
                (bf16, fp8), (bf16_mib, fp8_mib), used = compare(given.program, CASES[name], words, given.pairs)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name}, recompute {recompute}: not counted: {error}", file=sys.stderr, flush=True)
                status = 1
                continue
            print(f"{name}, recompute {recompute}: ran on {used}", file=sys.stderr, flush=True)
            print(f"| {name} | {recompute} | {bf16:,.0f} | {fp8:,.0f} | {fp8 / bf16:.2f}x | {bf16_mib} | {fp8_mib} | "
                  f"{fp8_mib / bf16_mib:.2f}x |", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
