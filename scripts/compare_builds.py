#!/usr/bin/env python3
"""Compares two builds of the program: the plans that they make and the results that they train.

    scripts/compare_builds.py plans OLD NEW [--jobs N] [--quick]
    scripts/compare_builds.py runs  OLD NEW [--jobs N] [--quick] [--device cpu|cuda:0]
    scripts/compare_builds.py speed OLD NEW [--device cpu|cuda:0] [--pairs N]

OLD and NEW are paths of the program `plimsoll`. The change between them must not change results, so every difference is
an error and the exit code is 1.

plans  For every preset of OLD, for a CPU and for two GPUs: `plan --json` with no method (such as --bf16), with every method alone,
       with every pair of methods and with random larger sets. Two plans are equal if all their sizes in bytes, bounds, peaks,
       kernels, batch sizes of programs and passes are. If OLD refuses a set, NEW must refuse it with the same exit code.
runs   Trains a tiny model with every method alone and with random sets, and compares every file that holds weights or
       optimizer states byte by byte, and the log of losses without its times.
speed  Trains the models of bench/gpu/compare.py (of bench/cpu/compare.py on a CPU) with both programs in turn, prints the
       median tokens per second of the second half of the steps, and compares losses and planned memory. A row that is more
       than 1 % slower is reported; on a busy machine it may be noise, so repeat it alone.

The methods are read from src/plan/search/methods.cc and src/base/optimizer_table.inc, so that a new one is compared as well. Times and wording are not
compared: IGNORED_KEYS lists the keys of plan.json that hold them.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import devices  # noqa: E402

DEVICES = [["--device", "cpu", "--num_threads", "4"], ["--device", "h100"], ["--device", "v100-16gb"]]
PRESETS = ["bert-base-uncased", "bert-large-uncased", "distilbert-base-cased", "MiniLM-L6-H384-uncased"]
# Keys of plan.json that contain times or descriptions, which may differ between the two builds.
IGNORED_KEYS = {"build_ms", "estimated_ms", "constant_provenance", "difference", "made_of", "version"}
TINY_CONFIG = {"model_type": "bert", "vocab_size": 150, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
               "intermediate_size": 32, "max_position_embeddings": 32}


def methods():
    """Returns {name: words} from the table of methods and from that of optimizers."""
    table = {}
    text = (ROOT / "src/plan/search/methods.cc").read_text()
    for name, words in re.findall(r'\.name = "(\w+)",\s*\.words = \{(.*?)\}', text, re.S):
        table[name] = re.findall(r'"((?:[^"\\]|\\.)*)"', words)
    text = (ROOT / "src/base/optimizer_table.inc").read_text()
    for name, optim, optim_args in re.findall(
            r'\.name = "(\w+)",\s*\.position = \d+,\s*\.optim = "(\w+)",(?:\s*\.optim_args = "([^"]*)",)?', text):
        table[name] = ["--optim", optim] + (["--optim_args", optim_args] if optim_args else [])
    if len(table) < 20 or "adamw_8bit" not in table:
        sys.exit("compare_builds: it found too few methods in src/plan/search/methods.cc and "
                 "src/base/optimizer_table.inc; their layout has changed")
    return table


def method_sets(table, quick):
    """Returns the sets of methods to compare, as lists of names: no method, each alone, each pair, random larger sets."""
    names = list(table)
    sets = [[]] + [[name] for name in names]
    if not quick:
        sets += [list(pair) for pair in itertools.combinations(names, 2)]
    draw = random.Random(7)
    sets += [draw.sample(names, draw.randint(3, 6)) for _ in range(20 if quick else 100)]
    return sets


def words_of(table, chosen):
    return [word for name in chosen for word in table[name]]


def run(program, words, folder):
    environment = dict(devices.without_changing(), HOME=str(folder), XDG_CACHE_HOME=str(folder), CUDA_CACHE_PATH="/tmp/cuda_cache")
    return subprocess.run([program, *words], capture_output=True, text=True, cwd=folder, env=environment)


def stripped(value):
    if isinstance(value, dict):
        return {key: stripped(item) for key, item in value.items() if key not in IGNORED_KEYS}
    return [stripped(item) for item in value] if isinstance(value, list) else value


def plan_of(program, words, folder):
    target = pathlib.Path(folder) / "plan.json"
    target.unlink(missing_ok=True)
    result = run(program, ["plan", *words, "--json", str(target)], folder)
    plan = stripped(json.loads(target.read_text())) if target.exists() else None
    return result.returncode, plan, result.stderr[-300:]


def first_difference(old, new, path=""):
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if old.get(key) != new.get(key):
                return first_difference(old.get(key), new.get(key), f"{path}/{key}")
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            if a != b:
                return first_difference(a, b, f"{path}[{i}]")
    return f"{path}: {str(old)[:120]} -> {str(new)[:120]}"


def compare_plans(old, new, words):
    with tempfile.TemporaryDirectory() as folder:
        old_code, old_plan, old_text = plan_of(old, words, folder)
        new_code, new_plan, new_text = plan_of(new, words, folder)
    if old_code != new_code:
        return old_code, f"exit {old_code} -> {new_code}: {old_text.strip()} -> {new_text.strip()}"
    if old_plan != new_plan:
        return old_code, first_difference(old_plan, new_plan)
    return old_code, None


def digest_of_run(program, words, folder):
    result = run(program, ["train", *words], folder)
    digests = {}
    for path in sorted(pathlib.Path(folder, "out").rglob("*")):
        if path.suffix == ".safetensors":
            digests[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    log = pathlib.Path(folder, "out", "trainer_state.json")
    if log.exists():
        history = json.loads(log.read_text()).get("log_history", [])
        digests["losses"] = [[entry.get(key) for key in ("step", "loss", "grad_norm", "eval_loss")] for entry in history]
    if result.returncode == 0 and (fault := device_fault(result, words[words.index("--device") + 1])):
        sys.exit(f"compare_builds: {program} {fault}")
    return result.returncode, digests, result.stderr[-300:]


# description of the device of the first run, with its threads and instruction sets; all other runs must use the same device
DEVICES_USED = []
DEVICES_LOCK = threading.Lock()


def device_fault(result, device):
    """Returns the reason why a run is excluded (it used another device than `device` or than the first run), or None.

    Prints the device of the first run.
    """
    used = devices.plimsoll_device(result.stderr + result.stdout)
    if wrong := devices.wrong_device(device, used):
        return wrong
    with DEVICES_LOCK:
        if not DEVICES_USED:
            DEVICES_USED.append(used)
            print(f"device {used}", flush=True)
    return None if used == DEVICES_USED[0] else f"ran on {used}, an earlier run on {DEVICES_USED[0]}"


def compare_runs(old, new, words):
    results = []
    for program in (old, new):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "model").mkdir()
            (pathlib.Path(folder) / "model/config.json").write_text(json.dumps(TINY_CONFIG))
            results.append(digest_of_run(program, words, folder))
    (old_code, old_files, old_text), (new_code, new_files, new_text) = results
    if old_code != new_code:
        return old_code, f"exit {old_code} -> {new_code}: {old_text.strip()} -> {new_text.strip()}"
    if old_files != new_files:
        return old_code, first_difference(old_files, new_files)
    return old_code, "no file was written" if old_code == 0 and not old_files else None


LARGE, BASE, MINI = "bert-large-uncased", "bert-base-uncased", "MiniLM-L6-H384-uncased"
GPU_ROWS = {"BERT-large 32 x 512 bf16": (LARGE, 32, 512, 30, ["--bf16"]),
            "BERT-large 32 x 512 tf32": (LARGE, 32, 512, 16, ["--tf32", "True"]),
            "BERT-large 32 x 512 fp32": (LARGE, 32, 512, 8, []),
            "BERT-large 4 x 512 fp32": (LARGE, 4, 512, 30, []),
            "BERT-large 4 x 512 tf32x3": (LARGE, 4, 512, 30, ["--matmul_precision", "tf32x3"]),
            "BERT-large 4 x 512 fp16": (LARGE, 4, 512, 120, ["--fp16"]),
            "BERT-large 1 x 512, accumulation 4, fp16": (LARGE, 1, 512, 80, ["--fp16", "--gradient_accumulation_steps", "4"]),
            "BERT-large 4 x 512 fp32, offloaded optimizer": (LARGE, 4, 512, 16, ["--offload_optimizer"]),
            "BERT-base 32 x 32 bf16": (BASE, 32, 32, 400, ["--bf16"])}
CPU_ROWS = {"BERT-base 8 x 128 fp32": (BASE, 8, 128, 6, []), "MiniLM 32 x 128 fp32": (MINI, 32, 128, 10, [])}


def speed_of(program, row, device, folder):
    model, batch, length, steps, words = row
    samples = batch * steps * (4 if "--gradient_accumulation_steps" in words else 1)
    result = run(program, ["train", "--config_name", model, "--dataset_name", "dummy", "--dummy_num_samples", str(samples),
                           "--dummy_seq_length", str(length), "--per_device_train_batch_size", str(batch), "--max_steps", str(steps),
                           "--logging_steps", str(steps // 2), "--save_strategy", "no", "--learning_rate", "1e-5", "--device", device,
                           "--output_dir", "out", *words], folder)
    log = pathlib.Path(folder) / "out/log.jsonl"
    if result.returncode or not log.exists():
        return None, f"exit {result.returncode}: {result.stderr[-300:].strip()}", None
    if fault := device_fault(result, device):
        return None, fault, None
    records = [json.loads(line) for line in log.read_text().splitlines()]
    steps_of = [record for record in records if "tokens_per_second" in record]
    memory = json.loads((pathlib.Path(folder) / "out/memory.json").read_text())
    return (steps_of[-1]["tokens_per_second"], [record.get("loss") for record in steps_of],
            {key: memory.get(key) for key in ("arena_bytes", "arena_high_water_bytes")})


def compare_speed(old, new, options):
    different = 0
    print(f"{'row':<46} {'OLD':>10} {'NEW':>10}  NEW/OLD  losses, memory")
    for name, row in (GPU_ROWS if options.device.startswith("cuda") else CPU_ROWS).items():
        speeds, results = {old: [], new: []}, {}
        for i in range(options.pairs):
            for program in ((old, new) if i % 2 == 0 else (new, old)):
                with tempfile.TemporaryDirectory() as folder:
                    speed, losses, memory = speed_of(program, row, options.device, folder)
                speeds[program].append(speed)
                results[program] = (losses, memory)
        if None in speeds[old] + speeds[new]:
            print(f"{name:<46} failed: {results[old][0]} | {results[new][0]}", flush=True)
            different += 1
            continue
        ratio = statistics.median(speeds[new]) / statistics.median(speeds[old])
        same = results[old] == results[new]
        different += ratio < 0.99 or not same
        print(f"{name:<46} {statistics.median(speeds[old]):10.0f} {statistics.median(speeds[new]):10.0f}  {ratio:7.4f}  "
              f"{'equal' if same else 'DIFFERENT ' + first_difference(list(results[old]), list(results[new]))}", flush=True)
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["plans", "runs", "speed"])
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="no pairs, and 20 random sets instead of 100")
    parser.add_argument("--device", default="cpu", help="of runs and speed")
    parser.add_argument("--pairs", type=int, default=3, help="of speed")
    parser.add_argument("--ignore", action="append", default=[], metavar="KEY",
                        help="a further key of plan.json that is not compared, for a change that is meant to change it")
    options = parser.parse_args()
    IGNORED_KEYS.update(options.ignore)
    old, new = (devices.measured_program(str(program)) for program in (options.old, options.new))
    if os.path.samefile(old, new):
        sys.exit("compare_builds: OLD and NEW are the same file")
    if options.what == "speed":
        sys.exit(1 if compare_speed(old, new, options) else 0)
    table = methods()
    sets = method_sets(table, options.quick)
    if options.what == "plans":
        presets = PRESETS[1:3] if options.quick else PRESETS
        cases = [["--config_name", preset, *device, *words_of(table, chosen)]
                 for preset in presets for device in DEVICES for chosen in sets]
        compare = compare_plans
    else:
        if not options.quick:  # pairs of methods are left out, because tests/combinations trains all of them
            sets = [chosen for chosen in sets if len(chosen) != 2]
        common = ["--config_name", "model", "--dataset_name", "dummy", "--dummy_num_samples", "24", "--dummy_seq_length", "12",
                  "--per_device_train_batch_size", "3", "--max_steps", "4", "--learning_rate", "1e-3", "--logging_steps", "1",
                  "--do_eval", "True", "--save_steps", "2", "--save_only_model", "False", "--num_threads", "1", "--device", options.device,
                  "--output_dir", "out"]
        cases = [common + words_of(table, chosen) for chosen in sets]
        compare = compare_runs
    different = refused = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for words, (code, difference) in zip(cases, pool.map(lambda case: compare(old, new, case), cases)):
            refused += code != 0
            if difference:
                different += 1
                if different <= 20:
                    print("different:", " ".join(words), "\n   ", difference, flush=True)
    print(f"{len(cases)} cases, {refused} refused by OLD, {different} different")
    if refused == len(cases):
        sys.exit("compare_builds: every case was refused, so nothing was compared")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
