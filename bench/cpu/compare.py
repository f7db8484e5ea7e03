#!/usr/bin/env python3
"""Compares Plimsoll with Hugging Face's Trainer on this CPU. The two programs do the same work in turn; prints medians and spread.

usage: compare.py PLIMSOLL TOKENIZER_FOLDER [--pairs 5] [--threads 2] [--python python3] [--cases a,b] [--out FILE.json]

Both programs run without a GPU, with --threads threads, and without environment variables that change threads, instructions or
data types (bench/devices.py). If a program used another device, other threads or another data type for matrix products, its
run is not compared, and the exit code is 1. PLIMSOLL is the program, TOKENIZER_FOLDER a folder with BERT's uncased vocab.txt,
from which the texts of the cases named "mixed" are made. Both programs train random weights with dropout 0.1 on sequences of
the same lengths. A time counts only if the mean loss is that of labels that cannot be learned in a few steps: ln 4 = 1.386
or, for the tokens of GPT-2, ln 50257 = 10.82, within 0.5. The cases of GPT-2 train a language model on random ids and need no tokenizer.

The case first_step measures only Plimsoll: the seconds from the start of the process to the end of the first step of MiniLM
with 32 sequences of 128 tokens, minus the median time of the later steps. The weights are those of TOKENIZER_FOLDER if it has
a model.safetensors, otherwise random.
"""
import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402

CASES = {
    "base_fp32": dict(model="bert-base-uncased", batch=8, length=128, steps=6),
    "base_bf16": dict(model="bert-base-uncased", batch=8, length=128, steps=10, bf16=True),
    "mini_fp32": dict(model="all-MiniLM-L6-v2", batch=32, length=128, steps=6),
    "mini_bf16": dict(model="all-MiniLM-L6-v2", batch=32, length=128, steps=10, bf16=True),
    "mixed_fp32": dict(model="all-MiniLM-L6-v2", batch=32, length=None, steps=10),
    "mixed_bf16": dict(model="all-MiniLM-L6-v2", batch=32, length=None, steps=16, bf16=True),
    "gpt2_fp32": dict(model="gpt2", batch=2, length=512, steps=6, classes=50257),
    "gpt2_bf16": dict(model="gpt2", batch=2, length=512, steps=6, classes=50257, bf16=True),
}
FIRST_STEP = "first_step"


def lengths_of(case):
    """Returns the lengths of 512 sequences in tokens: all equal, or log-normal from 8 to 256 with median 60, like short texts."""
    if case["length"]:
        return [case["length"]] * 512
    generator = random.Random(1)
    return [min(256, max(8, int(math.exp(generator.gauss(4.1, 0.5))))) for _ in range(512)]


def write_texts(path, lengths, tokenizer):
    """Writes a TSV file with one labelled text per length, which is its number of tokens including [CLS] and [SEP]."""
    with open(os.path.join(tokenizer, "vocab.txt"), encoding="utf-8") as file:
        words = [w for w in file.read().split("\n") if w.isascii() and w.isalpha() and len(w) > 2]
    generator = random.Random(2)
    with open(path, "w", encoding="utf-8") as file:
        file.write("sentence\tlabel\n")
        for i, length in enumerate(lengths):
            file.write(" ".join(generator.choice(words) for _ in range(length - 2)) + f"\tclass{i % 4}\n")


def data_words_of(case, tokenizer, folder):
    if "classes" in case:
        return ["--problem_type", "causal_lm", "--dataset_name", "dummy", "--dummy_num_samples", str(case["batch"] * case["steps"]),
                "--block_size", str(case["length"])]
    data = os.path.join(folder, "train.tsv")
    write_texts(data, lengths_of(case), tokenizer)
    return ["--tokenizer_name", tokenizer, "--train_file", data, "--max_seq_length", "256"]


def words_of(program, case, tokenizer, threads, folder):
    words = [program, "train", "--config_name", case["model"], *data_words_of(case, tokenizer, folder),
             "--output_dir", os.path.join(folder, "out"),
             "--per_device_train_batch_size", str(case["batch"]), "--max_steps", str(case["steps"]), "--save_strategy", "no",
             "--use_cpu", "--num_threads", str(threads)]
    if case.get("bf16"):
        words.append("--bf16")
    return words


def environment_of(threads):
    return devices.environment_for("cpu", threads=threads)


def wrong_run(device, threads):
    """Returns the reason why a run is left out of the comparison, or None."""
    return devices.wrong_device("cpu", device) or devices.wrong_threads(threads, device)


def run_ours(program, case, tokenizer, threads, folder):
    out = os.path.join(folder, "out")
    words = words_of(program, case, tokenizer, threads, folder) + ["--logging_strategy", "no"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment_of(threads))
    if done.returncode != 0:
        return dict(error=done.stderr.strip().splitlines()[-1])
    device = devices.plimsoll_device(done.stderr + done.stdout)
    if wrong := wrong_run(device, threads):
        return dict(error="Plimsoll " + wrong)
    with open(os.path.join(out, "train_results.json"), encoding="utf-8") as file:
        results = json.load(file)
    with open(os.path.join(out, "memory.json"), encoding="utf-8") as file:
        memory = json.load(file)
    return dict(device=device, samples_per_s=results["train_samples_per_second"], loss=results["train_loss"],
                peak_mib=memory["measured_peak_bytes"] / 2**20, predicted_mib=memory["predicted_total_bytes"] / 2**20)


def run_first_step(program, tokenizer, threads, folder):
    """Returns, for each step, the seconds from the start of the process until the log line of the step arrives."""
    words = words_of(program, CASES["mini_fp32"], tokenizer, threads, folder)
    words += ["--logging_steps", "1", "--disable_tqdm", "True"]
    if os.path.exists(os.path.join(tokenizer, "model.safetensors")):
        words[words.index("--config_name") + 1] = tokenizer
        words[words.index("--config_name")] = "--model_name_or_path"
    start = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment_of(threads))
    lines = [(time.monotonic() - start, line) for line in process.stdout]
    if process.wait() != 0:
        sys.exit(f"{FIRST_STEP}: {lines[-1][1]}")
    device = devices.plimsoll_device("".join(line for _, line in lines))
    if wrong := wrong_run(device, threads):
        sys.exit(f"{FIRST_STEP}: {wrong}")
    times = [seconds for seconds, line in lines if line.startswith("step ")]
    steps = [after - before for before, after in zip(times, times[1:])]
    return dict(device=device, first_s=times[0], step_s=statistics.median(steps), other_s=times[0] - statistics.median(steps))


def measure_first_step(arguments):
    runs = []
    for _ in range(arguments.pairs):
        with tempfile.TemporaryDirectory() as folder:
            runs.append(run_first_step(arguments.program, arguments.tokenizer, arguments.threads, folder))
    other = [run["other_s"] for run in runs]
    print(f"# {FIRST_STEP}: ours on {runs[0]['device']}", flush=True)
    print(f"{FIRST_STEP:<12} {statistics.median(run['first_s'] for run in runs):.2f} s to the end of the first step, of which "
          f"{statistics.median(run['step_s'] for run in runs):.2f} the step; the rest {statistics.median(other):.2f} "
          f"({min(other):.2f}-{max(other):.2f})", flush=True)
    return dict(case=FIRST_STEP, ours=runs)


def run_peer(python, name, threads):
    done = subprocess.run([python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.py"), name, str(threads)],
                          capture_output=True, text=True, env=environment_of(threads))
    if done.returncode != 0:
        return dict(error=done.stderr.strip().splitlines()[-1])
    found = json.loads(done.stdout.strip().splitlines()[-1])
    wanted = "bf16" if CASES[name].get("bf16") else "fp32"
    wrong = wrong_run(found.get("device"), threads) or devices.wrong_precision(wanted, found.get("precision"))
    return dict(error="Trainer " + wrong) if wrong else found


def write_rows(arguments, rows):
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cases", default=",".join([*CASES, FIRST_STEP]))
    parser.add_argument("--out")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.cases.split(",") if name not in CASES and name != FIRST_STEP]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join([*CASES, FIRST_STEP])}")
    devices.check_threads(arguments.threads)
    arguments.program = devices.measured_program(arguments.program)
    rows = []
    print(f"{'case':<12} {'ours/s':>9} {'spread':>13} {'peer/s':>9} {'spread':>13} {'ratio':>6} {'MiB':>7} {'plan':>7} {'peer':>7} {'ratio':>6}")
    for name in arguments.cases.split(","):
        if name == FIRST_STEP:
            rows.append(measure_first_step(arguments))
            write_rows(arguments, rows)
            continue
        case = CASES[name]
        ours, peer = [], []
        for _ in range(arguments.pairs):
            with tempfile.TemporaryDirectory() as folder:
                ours.append(run_ours(arguments.program, case, arguments.tokenizer, arguments.threads, folder))
            peer.append(run_peer(arguments.python, name, arguments.threads))
        bad = [r["error"] for r in ours + peer if "error" in r]
        expected = math.log(case.get("classes", 4))
        bad += [f"loss {r['loss']}" for r in ours + peer if "error" not in r and abs(r["loss"] - expected) > 0.5]
        if bad:
            print(f"{name:<12} not compared: {bad[0]}", flush=True)
            rows.append(dict(case=name, error=bad[0]))
            continue
        print(f"# {name}: ours on {ours[0]['device']}; peer on {peer[0]['device']}", flush=True)
        a, b = [r["samples_per_s"] for r in ours], [r["samples_per_s"] for r in peer]
        m, n = statistics.median(r["peak_mib"] for r in ours), statistics.median(r["peak_mib"] for r in peer)
        row = dict(case=name, ours=ours, peer=peer, speed_ratio=statistics.median(a) / statistics.median(b), memory_ratio=m / n)
        rows.append(row)
        print(f"{name:<12} {statistics.median(a):9.2f} {min(a):6.2f}-{max(a):6.2f} {statistics.median(b):9.2f} {min(b):6.2f}-{max(b):6.2f} "
              f"{row['speed_ratio']:5.2f}x {m:7.0f} {ours[0]['predicted_mib']:7.0f} {n:7.0f} {row['memory_ratio']:5.2f}x", flush=True)
        write_rows(arguments, rows)
    write_rows(arguments, rows)
    return 1 if any("error" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
