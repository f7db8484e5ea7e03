#!/usr/bin/env python3
"""Measures training steps whose optimizer states are in a file on a disk. Compares the time of a step with a lower bound: the
time of the computation or that of the disk transfers, whichever is longer.

usage: disk_states.py PLIMSOLL FOLDER [--model bert-base-uncased] [--batch 4] [--length 128] [--steps 4] [--pairs 3] [--threads 2]
       [--in_backward] [--memory_limit 2GiB]

PLIMSOLL is the program, FOLDER a folder on the disk. Each pair trains the same steps first without and then with
--offload_optimizer nvme:FOLDER; the losses have to be equal. The transfer rate of the disk is measured before each pair (plimsoll
bench --disk), because the rate of a shared disk changes. The bound is max(time of a step without the disk, bytes / rate).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402

REPORTED = set()  # descriptions of the devices that earlier runs used, each of which is printed only once


def run(words, cache, threads=None):
    """Runs a command and returns its output. If `threads` is given, checks that it used the CPU with this number of threads."""
    done = subprocess.run(words, capture_output=True, text=True, env=dict(devices.environment_for("cpu"), XDG_CACHE_HOME=cache))
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stderr}")
    if threads:
        used = devices.plimsoll_device(done.stderr + done.stdout)
        if wrong := devices.wrong_device("cpu", used) or devices.wrong_threads(threads, used):
            sys.exit("Plimsoll " + wrong)
        if used not in REPORTED:
            REPORTED.add(used)
            print(f"device {used}", flush=True)
    return done.stdout


def train_words(arguments, command, nvme):
    words = [arguments.program, command, "--use_cpu", "--num_threads", str(arguments.threads), "--config_name", arguments.model,
             "--dataset_name", "dummy", "--dummy_seq_length", str(arguments.length), "--dummy_num_samples",
             str(arguments.batch * arguments.steps), "--per_device_train_batch_size", str(arguments.batch)]
    if arguments.in_backward:
        words += ["--optimizer_in_backward", "--max_grad_norm", "0"]
    if nvme:
        words += ["--offload_optimizer", "nvme:" + arguments.folder]
        if arguments.memory_limit:
            words += ["--memory_limit", arguments.memory_limit]
    return words


def train(arguments, nvme, cache):
    """Trains a model. Returns the milliseconds per step, the loss, and the peak memory of the process in MiB."""
    with tempfile.TemporaryDirectory() as out:
        run(train_words(arguments, "train", nvme) + ["--max_steps", str(arguments.steps), "--output_dir", out, "--save_strategy",
                                                     "no", "--logging_strategy", "no"], cache, arguments.threads)
        with open(os.path.join(out, "train_results.json"), encoding="utf-8") as file:
            results = json.load(file)
        with open(os.path.join(out, "memory.json"), encoding="utf-8") as file:
            memory = json.load(file)
    return 1e3 / results["train_steps_per_second"], results["train_loss"], memory["measured_peak_bytes"] / 2**20


def disk_space(arguments, cache):
    plan = json.loads(run(train_words(arguments, "plan", True) + ["--json"], cache))
    return next(space for space in plan["spaces"] if space["name"] == "disk")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--model", default="bert-base-uncased")
    for name, value in (("batch", 4), ("length", 128), ("steps", 4), ("pairs", 3), ("threads", 2)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--in_backward", action="store_true")
    parser.add_argument("--memory_limit", help="of the runs with --offload_optimizer, which use what is below it")
    arguments = parser.parse_args()
    devices.check_threads(arguments.threads)
    devices.check_disk(arguments.folder)
    arguments.program = devices.measured_program(arguments.program)
    ratios = []
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(arguments.pairs):
            print(run([arguments.program, "bench", "--disk", arguments.folder], cache).splitlines()[1].strip(), flush=True)
            space = disk_space(arguments, cache)
            without_ms, loss, without_mib = train(arguments, False, cache)
            with_ms, loss_with, with_mib = train(arguments, True, cache)
            if loss != loss_with:
                sys.exit(f"the loss is {loss} without and {loss_with} with the disk")
            bound = max(without_ms, space["ms_per_step"])
            ratios.append(with_ms / bound)
            print(f"  without {without_ms:.0f} ms ({without_mib:.0f} MiB), transfers {space['ms_per_step']:.0f} ms at "
                  f"{space['gb_per_s']:.2f} GB/s, with {with_ms:.0f} ms ({with_mib:.0f} MiB): {ratios[-1]:.2f} x the larger one, "
                  f"{with_ms / (without_ms + space['ms_per_step']):.2f} x the sum", flush=True)
    print(f"median {statistics.median(ratios):.2f} x max(computation, transfers), {min(ratios):.2f}-{max(ratios):.2f}")


if __name__ == "__main__":
    main()
