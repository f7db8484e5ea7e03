#!/usr/bin/env python3
"""Plimsoll beside Hugging Face Trainer on this GPU: the same work in alternating pairs, checked before its time counts.

usage: compare.py PLIMSOLL TOKENIZER_FOLDER [--pairs 3] [--cases a,b] [--python python3] [--out FOLDER] [--ceilings]
                  [--device cuda:0] [--dry_run]
       compare.py --self_check

PLIMSOLL is the program, TOKENIZER_FOLDER a folder with BERT's uncased vocab.txt, --python an interpreter with torch and
transformers. --ceilings measures copy bandwidth, matrix products and attention with PyTorch first and adds each case's
floor. --out keeps gpu_compare.json and gpu_compare.md, rewritten after each pair; a further call with the same card and
programs adds its cases to them and repeats no check that held. --device cpu runs the whole script on a tiny model, to
test it where there is no GPU.

What is measured. Each run is a process of its own. Samples/s are those of the steady state: between two points of time
after the warm-up, for Plimsoll the train_runtime of two lines of log.jsonl (checked against the time at which these lines
arrived here), for the peer the ends of two steps with the GPU drained. Memory is NVML's `used`, version 2, sampled while
the process lives, less what it was before the process began: the CUDA context counts, on both sides alike. Time to the
first step is from the start of the process to the end of its first optimizer step.

What is checked. Per precision both sides compute the loss of one small random BERT on one file of texts; they must agree
within the bound that `loss_bound` derives. And each training loss must be that of two classes that are not learned (ln 2 =
0.693, within 0.25; the learning rate is 1e-6 on both sides, which moves no time). A case that fails is marked invalid,
and the exit code is 1. A precision that Plimsoll refuses is skipped by name.
"""
import argparse
import ctypes
import datetime
import hashlib
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 2**20
MODELS = {
    "bert-large-uncased": dict(hidden=1024, inner=4096, layers=24, heads=16),
    "bert-base-uncased": dict(hidden=768, inner=3072, layers=12, heads=12),
    "tiny": dict(hidden=128, inner=512, layers=2, heads=2),
}
LARGE, BASE = "bert-large-uncased", "bert-base-uncased"


def case(precision, batch, ours_steps, peer_steps, model=LARGE, length=512, accumulation=1, kind="train"):
    return dict(kind=kind, model=model, precision=precision, batch=batch, length=length, accumulation=accumulation,
                ours_steps=ours_steps, peer_steps=peer_steps)


# Steps are chosen so that the measured part lasts a second or more on an H200. Length None: short texts.
CASES = {
    "large_bf16": case("bf16", 32, 60, 30),
    "large_tf32": case("tf32", 32, 36, 21),
    "large_fp32": case("fp32", 32, 15, 12),
    "large4_fp32": case("fp32", 4, 60, 36),
    "large4_tf32x3": case("tf32x3", 4, 90, 36),
    "large4_fp16": case("fp16", 4, 180, 60),
    "large4_bf16": case("bf16", 4, 180, 60),
    "accumulate_fp16": case("fp16", 1, 90, 24, accumulation=4),
    "accumulate_bf16": case("bf16", 1, 90, 24, accumulation=4),
    "short_bf16": case("bf16", 32, 600, 150, model=BASE, length=None),
    "eval_bf16": case("bf16", 64, 72, 40, kind="eval"),
    "first_step": case("bf16", 32, 1, 1, kind="first_step"),
}
PRECISION_WORDS = {"fp32": [], "tf32": ["--tf32"], "tf32x3": ["--matmul_precision", "tf32x3"], "bf16": ["--bf16"], "fp16": ["--fp16"]}
SHORT_ROWS = 3668
CHECK_ROWS, CHECK_LABELS = 256, 4
CHECK_MODEL = dict(hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4)


def on_cpu(one):
    """The case in small, for --device cpu."""
    return dict(one, model="tiny", batch=min(one["batch"], 4), length=one["length"] and 32,
                ours_steps=min(one["ours_steps"], 18), peer_steps=min(one["peer_steps"], 9))


def short_lengths(rows, seed=1, mean=53, longest=128):
    """Log-normal lengths in tokens with this mean (before the cut to 8..longest), as texts of a sentence or two have."""
    generator = random.Random(seed)
    sigma = 0.4
    return [min(longest, max(8, round(math.exp(generator.gauss(math.log(mean) - sigma**2 / 2, sigma))))) for _ in range(rows)]


def write_texts(path, lengths, tokenizer, num_labels):
    """One text per length: whole words of the vocabulary, two tokens less for [CLS] and [SEP]."""
    with open(os.path.join(tokenizer, "vocab.txt"), encoding="utf-8") as file:
        words = [w for w in file.read().split("\n") if w.isascii() and w.isalpha() and w.islower() and len(w) > 2]
    generator = random.Random(2)
    with open(path, "w", encoding="utf-8") as file:
        file.write("sentence\tlabel\n")
        for i, length in enumerate(lengths):
            file.write(" ".join(generator.choice(words) for _ in range(length - 2)) + f"\tclass{i % num_labels}\n")


def loss_bound(precision):
    """Largest relative difference of the two losses of the small model.

    fp32: 1e-5, both sides sum in another order only. tf32x3 (fp32 on the peer's side): the same, and 2^-21 that splitting
    loses of a product. The others round what each product reads or writes to a unit u
    (tf32 and fp16 2^-11, bf16 2^-9), each side at other places: some 12 roundings a layer, 4 layers, two sides, so that a
    sample's loss differs by about u sqrt(2 x 48) = 10 u. The mean over 256 samples would shrink this by 16 if they were
    independent; they share the weights, so it is taken as a shrinkage by 4 only: 2.5 u."""
    unit = {"fp32": 0.0, "tf32x3": 2.0**-21, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-9}
    return (1e-5 if precision in ("fp32", "tf32x3") else 0.0) + 2.5 * unit[precision]


class Gauge:
    """NVML's `used` of version 2 of one GPU, through the driver's own library; `None` figures where there is none."""

    class Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                    ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self, device):
        self.nvml = None
        if not device.startswith("cuda"):
            return
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.check(self.nvml.nvmlInit_v2())
        ordinal = int(device.partition(":")[2] or 0)
        visible = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]
        name = visible[ordinal] if visible else str(ordinal)
        # Every process sees this GPU alone (Trainer would share the work among all), counted as NVML counts.
        os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=name)
        self.device = ctypes.c_void_p()
        if name.isdigit():
            self.check(self.nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(self.device)))
        else:
            self.check(self.nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self.device)))

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"NVML answers {status}; nvidia-smi may say more")

    def used(self):
        if self.nvml is None:
            return None
        memory = self.Memory(version=ctypes.sizeof(self.Memory) | 2 << 24)
        self.check(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(memory)))
        return memory.used

    def card(self):
        if self.nvml is None:
            return dict(card="none (CPU)", driver="none", driver_cuda="none")
        text = ctypes.create_string_buffer(96)
        self.check(self.nvml.nvmlDeviceGetName(self.device, text, ctypes.c_uint(96)))
        name = text.value.decode()
        self.check(self.nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)))
        version = ctypes.c_int()
        self.check(self.nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)))
        return dict(card=name, driver=text.value.decode(), driver_cuda=f"{version.value // 1000}.{version.value % 1000 // 10}")


class Watched:
    """A process that ran to its end: `lines` are (seconds since its start, text) of stdout and stderr together."""

    def __init__(self, words, gauge, timeout, on_line=None):
        before = settle(gauge)
        self.lines, self.peak_mib = [], None
        peak, over = [before or 0], threading.Event()

        def sample():
            while not over.wait(0.01):
                peak[0] = max(peak[0], gauge.used())

        environment = dict(os.environ, PYTHONUNBUFFERED="1", HF_HUB_OFFLINE="1", PYTHONDONTWRITEBYTECODE="1")
        start = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        clock = threading.Timer(timeout, process.kill)
        sampler = threading.Thread(target=sample, daemon=True)
        clock.start()
        if before is not None:
            sampler.start()
        try:
            for line in process.stdout:
                self.lines.append((time.perf_counter() - start, line.decode(errors="replace").rstrip("\n")))
                if on_line:
                    on_line(self.lines[-1][1])
            self.code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            clock.cancel()
            over.set()
        self.seconds = time.perf_counter() - start
        if before is not None:
            sampler.join()
            self.peak_mib = (peak[0] - before) / MIB

    def error(self):
        """Why it failed, in a line; None if it did not."""
        if self.code == 0:
            return None
        said = [text for _, text in self.lines if text.strip()]
        errors = [text for text in said if text.startswith("plimsoll: ") or "Error" in text]
        return f"exit {self.code} after {self.seconds:.0f} s: " + (errors or said or ["it said nothing"])[-1][:300]

    def json_line(self):
        return json.loads([text for _, text in self.lines if text.startswith("{")][-1])


def settle(gauge):
    """What others hold, once the last process's memory is back."""
    used = gauge.used()
    for _ in range(50):
        time.sleep(0 if used is None else 0.1)
        again = gauge.used()
        if again == used:
            return again
        used = again
    return used


def steady(log, samples_per_step, steps):
    """From records of log.jsonl: samples/s between the first record at a third of the steps or later and the last one,
    those of each interval in between, and the steps of the two."""
    records = [r for r in log if "loss" in r and "train_runtime" in r and r["step"] >= max(2, steps // 3)]
    if len(records) < 2:
        raise ValueError(f"{len(records)} records of the log after the warm-up, two are needed")
    rates = [samples_per_step * (b["step"] - a["step"]) / (b["train_runtime"] - a["train_runtime"])
             for a, b in zip(records, records[1:])]
    first, last = records[0], records[-1]
    rate = samples_per_step * (last["step"] - first["step"]) / (last["train_runtime"] - first["train_runtime"])
    return dict(samples_per_s=rate, intervals=rates, from_step=first["step"], to_step=last["step"])


def arrivals(lines):
    """When the progress line of each logged step arrived."""
    found = ((re.match(r"step +(\d+)/", text), seconds) for seconds, text in lines)
    return {int(match.group(1)): seconds for match, seconds in found if match}


class Ours:
    def __init__(self, program, tokenizer, device, gauge):
        self.program, self.tokenizer, self.device, self.gauge = program, tokenizer, device, gauge

    def words(self, one, folder, rows=None):
        """The command of a case; `folder` gets its input and output."""
        model = os.path.join(folder, "tiny") if one["model"] == "tiny" else one["model"]
        words = [self.program, "eval" if one["kind"] == "eval" else "train", "--config_name", model, "--device", self.device,
                 "--output_dir", os.path.join(folder, "out"), *PRECISION_WORDS[one["precision"]]]
        if one["length"]:
            count = rows or 512
            words += ["--dataset_name", "dummy", "--dummy_num_samples", str(count), "--dummy_seq_length", str(one["length"]),
                      "--max_seq_length", str(one["length"])]
        else:
            words += ["--tokenizer_name", self.tokenizer, "--train_file", os.path.join(folder, "train.tsv"),
                      "--max_seq_length", "128"]
        if one["kind"] == "eval":
            return words + ["--per_device_eval_batch_size", str(one["batch"]), "--json", os.path.join(folder, "plan.json")]
        every = max(1, one["ours_steps"] // 12)
        return words + ["--learning_rate", "1e-6", "--per_device_train_batch_size", str(one["batch"]), "--gradient_accumulation_steps",
                        str(one["accumulation"]), "--max_steps", str(one["ours_steps"]), "--logging_steps", str(every),
                        "--logging_first_step", "--include_num_input_tokens_seen", "all", "--save_strategy", "no",
                        "--disable_tqdm"]

    def prepare(self, one, folder):
        if one["model"] == "tiny":
            size = MODELS["tiny"]
            os.makedirs(os.path.join(folder, "tiny"), exist_ok=True)
            write_json(os.path.join(folder, "tiny", "config.json"), dict(
                model_type="bert", architectures=["BertForSequenceClassification"], vocab_size=30522,
                hidden_size=size["hidden"], intermediate_size=size["inner"], num_hidden_layers=size["layers"],
                num_attention_heads=size["heads"]))
        if not one["length"]:
            write_texts(os.path.join(folder, "train.tsv"), short_lengths(SHORT_ROWS), self.tokenizer, 2)

    def refusal(self, one):
        """Why the program refuses the precision; None if it does not. Other faults show when the case runs."""
        if not PRECISION_WORDS[one["precision"]]:
            return None
        with tempfile.TemporaryDirectory() as folder:
            self.prepare(one, folder)
            done = subprocess.run(self.words(one, folder) + ["--dry_run"], capture_output=True, text=True)
        said = [line for line in done.stderr.splitlines() if line.startswith("plimsoll: ")]
        if done.returncode == 2 and said and one["precision"] in said[-1]:
            return said[-1]
        return None

    def run(self, one):
        with tempfile.TemporaryDirectory() as folder:
            self.prepare(one, folder)
            if one["kind"] == "eval":
                return self.evaluate(one, folder)
            done = Watched(self.words(one, folder), self.gauge, 400)
            if done.error():
                return dict(error=done.error())
            with open(os.path.join(folder, "out", "log.jsonl"), encoding="utf-8") as file:
                log = [json.loads(line) for line in file]
            memory = read_json(os.path.join(folder, "out", "memory.json"))
            return train_figures(one, log, memory, done)

    def evaluate(self, one, folder):
        """Steady state of an evaluation: the difference of a long and a short one, each a process of its own."""
        runtimes, losses = [], []
        counts = [one["batch"] * max(2, one["ours_steps"] // 9), one["batch"] * one["ours_steps"]]
        for rows in counts:
            done = Watched(self.words(one, folder, rows), self.gauge, 400)
            if done.error():
                return dict(error=done.error())
            results = read_json(os.path.join(folder, "out", "eval_results.json"))
            runtimes.append(results["eval_runtime"])
            losses.append(results["eval_loss"])
        predicted = read_json(os.path.join(folder, "plan.json"))["total_bytes"] / MIB
        return dict(samples_per_s=(counts[1] - counts[0]) / (runtimes[1] - runtimes[0]), loss=losses[1], runtimes=runtimes,
                    rows=counts, nvml_mib=done.peak_mib, predicted_mib=predicted)

    def loss_of(self, folder, precision):
        """The loss of the small model of check_losses."""
        out = os.path.join(folder, "ours_" + precision)
        done = Watched(self.check_words(folder, precision, out), self.gauge, 200)
        if done.error():
            raise RuntimeError(done.error())
        return read_json(os.path.join(out, "eval_results.json"))["eval_loss"]

    def check_words(self, folder, precision, out):
        return [self.program, "eval", "--model_name_or_path", os.path.join(folder, "model"), "--validation_file",
                os.path.join(folder, "check.tsv"), "--max_seq_length", "128", "--per_device_eval_batch_size", "32",
                "--device", self.device, "--output_dir", out, *PRECISION_WORDS[precision]]


def train_figures(one, log, memory, done):
    """A training run of ours as a record; an "error" where its log and the clock here disagree."""
    figures = dict(loss=[r["train_loss"] for r in log if "train_loss" in r][-1], nvml_mib=done.peak_mib,
                   program_mib=memory["measured_peak_bytes"] / MIB, predicted_mib=memory["predicted_total_bytes"] / MIB)
    arrived = arrivals(done.lines)
    figures["first_step_s"] = arrived.get(1)
    if one["kind"] == "first_step":
        return figures if arrived.get(1) else dict(error="no progress line of the first step")
    figures.update(steady(log, one["batch"] * one["accumulation"], one["ours_steps"]))
    waits = [r["data_wait_fraction"] for r in log if "data_wait_fraction" in r]
    figures["data_wait_fraction"] = waits[-1] if waits else None
    first, last = figures["from_step"], figures["to_step"]
    if first not in arrived or last not in arrived:
        return dict(error=f"no progress lines of steps {first} and {last}")
    seen = one["batch"] * one["accumulation"] * (last - first) / (arrived[last] - arrived[first])
    figures["samples_per_s_by_arrival"] = seen
    if abs(seen / figures["samples_per_s"] - 1) > 0.05:
        return dict(error=f"the log says {figures['samples_per_s']:.2f} samples/s, the clock {seen:.2f}")
    return figures


class Peer:
    def __init__(self, python, tokenizer, device, gauge):
        self.python, self.tokenizer, self.device, self.gauge = python, tokenizer, device, gauge

    def words(self, *arguments):
        return [self.python, os.path.join(HERE, "peer.py"), *arguments]

    def run(self, one):
        done = Watched(self.words(one["kind"], json.dumps(one), self.device), self.gauge, 400)
        if done.error():
            return dict(error=done.error())
        figures = dict(done.json_line(), nvml_mib=done.peak_mib)
        first = [seconds for seconds, text in done.lines if text == "first step done"]
        figures["first_step_s"] = first[0] if first else None
        return figures

    def call(self, *arguments, on_line=None):
        done = Watched(self.words(*arguments), self.gauge, 400, on_line)
        if done.error():
            raise RuntimeError(done.error())
        return done.json_line()


def check_losses(ours, peer, precisions):
    """Per precision the two losses on the same weights and texts, their relative difference and its bound."""
    checks = {}
    if not precisions:
        return checks
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "check.tsv")
        write_texts(data, short_lengths(CHECK_ROWS, seed=3), ours.tokenizer, CHECK_LABELS)
        model = os.path.join(folder, "model")
        os.makedirs(model)
        for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            if os.path.exists(os.path.join(ours.tokenizer, name)):
                shutil.copy(os.path.join(ours.tokenizer, name), model)
        peer.call("make", model)
        for precision in precisions:
            row = dict(bound=loss_bound(precision))
            try:
                row["ours"] = ours.loss_of(folder, precision)
                row["peer"] = peer.call("loss", model, data, precision, peer.device)["loss"]
                row["difference"] = abs(row["ours"] - row["peer"]) / abs(row["peer"])
                row["ok"] = row["difference"] <= row["bound"]
            except (RuntimeError, OSError, KeyError, IndexError, ValueError) as error:
                row.update(ok=False, error=str(error))
            checks[precision] = row
            print(f"loss on the same weights, {precision}: {json.dumps(row)}", file=sys.stderr, flush=True)
    return checks


# Floors.

def micro_batch(one):
    """Tokens, and the length whose square is the mean square, of a micro-batch: what attention's work follows."""
    if one["length"]:
        return one["batch"] * one["length"], one["length"]
    lengths = short_lengths(SHORT_ROWS)
    square = math.sqrt(sum(n * n for n in lengths) / sum(lengths) * statistics.mean(lengths))
    return round(one["batch"] * statistics.mean(lengths)), -(-round(square) // 8) * 8


def products_of(one):
    """(outputs, inputs) of a layer's products; with the tokens they are a product's three sizes."""
    size = MODELS[one["model"]]
    h, f = size["hidden"], size["inner"]
    return [(3 * h, h), (h, h), (f, h), (h, f)]


def ceilings_wanted(cases):
    """What the peer is to measure: products as "precision tokens outputs inputs direction", attention likewise."""
    products, attention = [], []
    for one in cases:
        tokens, length = micro_batch(one)
        directions = ["forward"] if one["kind"] == "eval" else ["forward", "input_gradient", "weight_gradient"]
        products += [f"{one['precision']} {tokens} {n} {k} {d}" for n, k in products_of(one) for d in directions]
        heads, way = MODELS[one["model"]]["heads"], "forward" if one["kind"] == "eval" else "both"
        attention.append(f"{one['precision']} {one['batch']} {heads} {length} {MODELS[one['model']]['hidden'] // heads} {way}")
    squares = [f"{p} 8192 8192 8192 forward" for p in ("fp32", "tf32", "bf16", "fp16")]
    return dict(products=sorted(set(products)) + squares, attention=sorted(set(attention)))


def num_parameters(model, vocabulary=30522):
    size = MODELS[model]
    h, f = size["hidden"], size["inner"]
    return (vocabulary + 512 + 2 + 2) * h + size["layers"] * (4 * h * h + 2 * h * f + 9 * h + f) + h * h + 3 * h + 2


def floor_of(one, ceilings):
    """Milliseconds that a step cannot go below on this card, by part, from what PyTorch reached on it.

    products: those of all layers at the measured times of their shapes. attention: PyTorch's fastest kernel at this shape
    (short texts: at the length whose square is the mean square, without padding). adamw: weights, two moments and an fp32
    gradient read, all but the gradient written (28 bytes a parameter; 30 with a 16-bit copy of the weights) at the measured
    copy rate. element_wise: what must move between the products where nothing is fused into them but biases, in values of
    the model's width a token and layer: twice dropout + residual + norm (3 each), GELU (8 as the inner width is 4), and
    backward norm (4 each), dropout (1 each), GELU (12): 36, forward alone 14. Embeddings, head and launches count nothing."""
    size, precision = MODELS[one["model"]], one["precision"]
    tokens, length = micro_batch(one)
    wanted = ceilings_wanted([one])
    evaluates, bytes_a_value = one["kind"] == "eval", 2 if precision in ("bf16", "fp16") else 4
    shapes = [key for key in wanted["products"] if " 8192 8192 8192 " not in key]
    try:
        times = sum(ceilings["products"][key] for key in shapes)
        attention = ceilings["attention"][wanted["attention"][0]]["ms"]
    except (KeyError, TypeError):
        return None
    values = (14 if evaluates else 36) * tokens * size["layers"] * size["hidden"]
    copy = ceilings["copy_bytes_per_s"] / 1000.0
    moved = num_parameters(one["model"]) * (30 if bytes_a_value == 2 else 28)
    times_a_step = one["accumulation"]
    parts = dict(products=size["layers"] * times * times_a_step, attention=size["layers"] * attention * times_a_step,
                 adamw=0.0 if evaluates else moved / copy, element_wise=values * bytes_a_value / copy * times_a_step)
    strict = parts["products"] + parts["attention"] + parts["adamw"]
    samples = one["batch"] * times_a_step
    return dict(parts, samples_per_s=1000 * samples / strict,
                samples_per_s_with_element_wise=1000 * samples / (strict + parts["element_wise"]))


# Results.

def median_of(runs, key):
    values = [r[key] for r in runs if r.get(key) is not None]
    return statistics.median(values) if values else None


def judge(row, check):
    """Fills in medians, ratios and, where something is wrong, "invalid"."""
    ours, peer = row["ours"], row["peer"]
    faults = [r["error"] for r in ours + peer if "error" in r]
    if check is None or not check["ok"]:
        faults.append(f"the losses of the two sides differ in {row['case']['precision']}" if check else "no check of the loss")
    faults += [f"training loss {r['loss']}" for r in ours + peer
               if "error" not in r and not abs(r["loss"] - math.log(2)) <= 0.25]
    row.pop("invalid", None)
    if faults:
        row["invalid"] = faults[0]
    for name, runs in (("ours", ours), ("peer", peer)):
        for key in ("samples_per_s", "first_step_s", "nvml_mib", "predicted_mib", "program_mib"):
            row[f"{name}_{key}"] = median_of(runs, key)
    both = row["ours_samples_per_s"], row["peer_samples_per_s"]
    row["speed_ratio"] = both[0] / both[1] if all(both) else None
    both = row["ours_nvml_mib"], row["peer_nvml_mib"]
    row["memory_ratio"] = both[0] / both[1] if all(both) else None
    if row["ours_nvml_mib"] and row["ours_predicted_mib"] and row["ours_nvml_mib"] > row["ours_predicted_mib"]:
        row["above_prediction_mib"] = row["ours_nvml_mib"] - row["ours_predicted_mib"]


def shown(value, form="{:.1f}"):
    return "-" if value is None else form.format(value)


def with_range(row, side, key, form):
    values = [r[key] for r in row[side] if r.get(key) is not None]
    if not values:
        return "-"
    return f"{form.format(statistics.median(values))} ({form.format(min(values))}-{form.format(max(values))})"


def described(one):
    model = {LARGE: "BERT-large", BASE: "BERT-base"}.get(one["model"], one["model"])
    size = f"{one['batch']} x {one['length']}" if one["length"] else f"{one['batch']} short texts"
    more = f", accumulation {one['accumulation']}" if one["accumulation"] > 1 else ""
    kind = {"eval": " evaluation", "first_step": ", start to first step, s"}.get(one["kind"], "")
    return f"{model}{kind if one['kind'] == 'eval' else ''} {size}{more} {one['precision']}" + (
        kind if one["kind"] == "first_step" else "")


def speed_line(name, row):
    if "skipped" in row:
        return f"| {described(row['case'])} | skipped: {row['skipped']} |" + " - |" * 8
    key, form = ("first_step_s", "{:.2f}") if row["case"]["kind"] == "first_step" else ("samples_per_s", "{:.1f}")
    ratio, floor = row.get("speed_ratio"), row.get("floor")
    if row["case"]["kind"] == "first_step":
        floor = None
        ratio = row["peer_first_step_s"] / row["ours_first_step_s"] if row["ours_first_step_s"] and row["peer_first_step_s"] else None
    share = floor and row["ours_samples_per_s"] and row["ours_samples_per_s"] / floor["samples_per_s"]
    share_all = floor and row["ours_samples_per_s"] and row["ours_samples_per_s"] / floor["samples_per_s_with_element_wise"]
    name_of = described(row["case"]) + (f" **invalid: {row['invalid']}**" if "invalid" in row else "")
    cells = [name_of, with_range(row, "ours", key, form), with_range(row, "peer", key, form), shown(ratio, "{:.2f}x"),
             f"{shown(row['ours_nvml_mib'], '{:.0f}')} ({shown(row['ours_predicted_mib'], '{:.0f}')})",
             shown(row["peer_nvml_mib"], "{:.0f}"), shown(row["memory_ratio"], "{:.2f}x"),
             "-" if not floor else f"{floor['samples_per_s']:.0f} / {floor['samples_per_s_with_element_wise']:.0f}",
             "-" if not share else f"{100 * share:.0f} % / {100 * share_all:.0f} %", str(len(row["ours"]))]
    return "| " + " | ".join(cells) + " |"


def floor_lines(result):
    rows = [(row, row["floor"]) for row in result["cases"].values() if row.get("floor")]
    if not rows:
        return []
    ceilings = result["ceilings"]
    lines = ["", f"Measured with PyTorch here: copy {ceilings['copy_bytes_per_s'] / 1e12:.2f} TB/s (read and written); 8192 x 8192 x "
             "8192, TFLOP/s: " + ", ".join(f"{key.split()[0]} {2 * 8192**3 / ms / 1e9:.0f}" for key, ms in
                                           ceilings["products"].items() if " 8192 8192 8192 " in key) + ".", "",
             "| a step's floor, ms | products | TFLOP/s | attention | kernel | AdamW | element-wise | sum | Plimsoll | Trainer |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for row, floor in rows:
        one, wanted = row["case"], ceilings_wanted([row["case"]])
        flops = sum(2 * math.prod(int(n) for n in key.split()[1:4]) for key in wanted["products"] if " 8192 8192 8192 " not in key)
        flops *= MODELS[one["model"]]["layers"] * one["accumulation"]
        step = [1000 * one["batch"] * one["accumulation"] / rate if rate else None
                for rate in (row["ours_samples_per_s"], row["peer_samples_per_s"])]
        parts = [floor["products"], floor["attention"], floor["adamw"], floor["element_wise"]]
        lines.append(f"| {described(one)} | {parts[0]:.2f} | {flops / floor['products'] / 1e9:.0f} | {parts[1]:.2f} | "
                     f"{ceilings['attention'][wanted['attention'][0]]['kernel']} | {parts[2]:.2f} | {parts[3]:.2f} | "
                     f"{sum(parts):.2f} | {shown(step[0], '{:.2f}')} | {shown(step[1], '{:.2f}')} |")
    return lines


def markdown(result):
    head = result["header"]
    lines = [f"{head['date']}: {head['card']}, driver {head['driver']} (CUDA {head['driver_cuda']}); {head['plimsoll']}; "
             f"torch {head['torch']} (CUDA {head['torch_cuda']}, cuDNN {head['cudnn']}), transformers {head['transformers']}. "
             f"Before the runs others held {shown(head['held_by_others_mib'], '{:.0f}')} MiB of the GPU.", "",
             "Medians and ranges over alternating pairs, each run a process of its own, dropout 0.1. Memory is NVML's `used` "
             "(version 2) at its peak less what was held before: the CUDA context counts on both sides. Floor: products, attention "
             "and AdamW alone / element-wise bytes too.", "",
             "| work | Plimsoll, samples/s | Trainer, samples/s | speed | Plimsoll, MiB (planned) | Trainer, MiB | memory | "
             "floor, samples/s | share of it | pairs |", "|---|---|---|---|---|---|---|---|---|---|"]
    lines += [speed_line(name, row) for name, row in result["cases"].items()]
    lines += ["", "| loss on the same weights and texts | Plimsoll | Trainer | relative difference | bound | |", "|---|---|---|---|---|---|"]
    for precision, c in result["checks"].items():
        lines.append(f"| {precision} | {shown(c.get('ours'), '{:.7f}')} | {shown(c.get('peer'), '{:.7f}')} | "
                     f"{shown(c.get('difference'), '{:.1e}')} | {c['bound']:.1e} | {'agree' if c['ok'] else c.get('error', 'differ')} |")
    for row in result["cases"].values():
        if "above_prediction_mib" in row:
            lines += ["", f"{described(row['case'])}: {row['above_prediction_mib']:.0f} MiB above what was planned."]
    return "\n".join(lines + floor_lines(result)) + "\n"


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Aside and renamed: a run that is killed leaves the file of before."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.replace(path + ".new", path)


def save(result, folder):
    if not folder:
        return
    write_json(os.path.join(folder, "gpu_compare.json"), result)
    with open(os.path.join(folder, "gpu_compare.md"), "w", encoding="utf-8") as file:
        file.write(markdown(result))


def header_of(program, peer, gauge):
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with open(program, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    used = settle(gauge)
    return dict(gauge.card(), date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
                plimsoll=f"{version} ({digest})", held_by_others_mib=None if used is None else used / MIB, **peer.call("versions"))


def begin(header, folder):
    """What an earlier call with the same card and programs left in the folder, or an empty result."""
    result = dict(header=header, checks={}, ceilings=None, cases={})
    path = os.path.join(folder, "gpu_compare.json") if folder else ""
    if not os.path.exists(path):
        return result
    before = read_json(path)
    same = all(before["header"].get(key) == value for key, value in header.items() if key not in ("date", "held_by_others_mib"))
    if same:
        return dict(before, header=header)
    os.replace(path, path + ".before")
    print(f"{path}: of another card or program; it is kept as {path}.before", file=sys.stderr)
    return result


def run_case(name, one, sides, result, arguments):
    ours, peer = sides
    row = result["cases"][name] = dict(case=one, ours=[], peer=[])
    why = ours.refusal(one)
    if why:
        row["skipped"] = why
        print(f"{name}: skipped: {why}", file=sys.stderr, flush=True)
        save(result, arguments.out)
        return
    if result["ceilings"] and one["kind"] != "first_step":
        row["floor"] = floor_of(one, result["ceilings"])
    for pair in range(arguments.pairs):
        row["ours"].append(ours.run(one))
        row["peer"].append(peer.run(one))
        judge(row, result["checks"].get(one["precision"]))
        save(result, arguments.out)
        brief = {side: {k: v for k, v in row[side][-1].items() if k != "intervals"} for side in ("ours", "peer")}
        print(f"{name} {pair + 1}/{arguments.pairs}: {json.dumps(brief)}", file=sys.stderr, flush=True)
        if any("error" in row[side][-1] for side in ("ours", "peer")):
            break


def print_commands(chosen, sides):
    ours, peer = sides
    for name, one in chosen.items():
        rows = one["batch"] * one["ours_steps"] if one["kind"] == "eval" else None
        print(f"# {name}\n{shlex.join(ours.words(one, 'FOLDER', rows))}\n{shlex.join(peer.words(one['kind'], json.dumps(one), peer.device))}")
    for precision in sorted({one["precision"] for one in chosen.values()}):
        print(f"# loss on the same weights, {precision}, within {loss_bound(precision):.1e}\n"
              + shlex.join(ours.check_words("FOLDER", precision, "FOLDER/out")) + "\n"
              + shlex.join(peer.words("loss", "FOLDER/model", "FOLDER/check.tsv", precision, peer.device)))
    print("# ceilings\n" + shlex.join(peer.words("ceilings", json.dumps(ceilings_wanted(chosen.values())), peer.device)))


def self_check():
    """The parts that need no program and no GPU, on made-up logs."""
    log = [dict(step=s, loss=0.7, train_runtime=5.0 + 0.1 * s) for s in (1, 5, 10, 15, 20, 25, 30)] + [dict(step=30, train_loss=0.7)]
    found = steady(log, 32, 30)
    assert (found["from_step"], found["to_step"]) == (10, 30) and abs(found["samples_per_s"] - 320) < 1e-6, found
    assert len(found["intervals"]) == 4 and all(abs(r - 320) < 1e-6 for r in found["intervals"])
    try:
        steady(log[:3], 32, 30)
        raise AssertionError("a log without two records after the warm-up")
    except ValueError:
        pass
    lines = [(2.0, "device"), (6.1, "step  1/30   3 %  loss 0.7"), (7.0, "step 10/30"), (9.0, "step 30/30")]
    assert arrivals(lines) == {1: 6.1, 10: 7.0, 30: 9.0}
    one, memory = case("bf16", 32, 30, 30), dict(measured_peak_bytes=8 * MIB, predicted_total_bytes=9 * MIB)

    class Fake:
        peak_mib = 10.0
    Fake.lines = lines
    figures = train_figures(one, log, memory, Fake)
    assert figures["first_step_s"] == 6.1 and figures["predicted_mib"] == 9 and abs(figures["samples_per_s_by_arrival"] - 320) < 1e-6
    Fake.lines = lines[:-1] + [(10.0, "step 30/30")]
    assert "clock" in train_figures(one, log, memory, Fake)["error"]
    row = dict(case=one, ours=[figures, dict(figures, samples_per_s=330.0)], peer=[dict(samples_per_s=100.0, loss=0.7, nvml_mib=20.0)])
    good = dict(ok=True, bound=0.01)
    judge(row, good)
    assert "invalid" not in row and abs(row["speed_ratio"] - 3.25) < 1e-6 and row["memory_ratio"] == 0.5
    assert abs(row["above_prediction_mib"] - 1) < 1e-6
    judge(row, dict(good, ok=False))
    assert "differ" in row["invalid"]
    judge(dict(row, ours=[dict(figures, loss=float("nan"))]), good)
    bad = dict(row, ours=[dict(figures, loss=float("nan"))])
    judge(bad, good)
    assert "nan" in bad["invalid"], "a loss that is not a number is no loss"
    assert num_parameters(LARGE) == 335143938, num_parameters(LARGE)
    lengths = short_lengths(SHORT_ROWS)
    assert 52 < statistics.mean(lengths) < 54 and max(lengths) == 128, statistics.mean(lengths)
    # An H200's figures give the floor that its documents name: 39.5 ms of products, 24 x 0.673 of attention, 2.4 of AdamW.
    wanted = ceilings_wanted([one])
    shapes = [key for key in wanted["products"] if " 8192 8192 8192 " not in key]
    assert len(shapes) == 12
    fake = dict(products={key: 39.5 / 24 / 12 for key in shapes}, copy_bytes_per_s=4.26e12,
                attention={wanted["attention"][0]: dict(ms=0.673, kernel="CUDNN")})
    floor = floor_of(one, fake)
    assert abs(floor["adamw"] - 2.36) < 0.01 and 6 < floor["element_wise"] < 8 and 545 < floor["samples_per_s"] < 555, floor
    assert floor_of(case("fp16", 4, 9, 9), fake) is None
    head = dict(date="d", card="c", driver="1", driver_cuda="1", plimsoll="p", torch="t", torch_cuda="1", cudnn="1", transformers="1",
                held_by_others_mib=None)
    fake["products"]["bf16 8192 8192 8192 forward"] = 1.4
    judge(row, good)
    text = markdown(dict(header=head, checks=dict(bf16=good), ceilings=fake, cases=dict(
        a=dict(row, floor=floor), b=dict(bad, floor=None), c=dict(case=one, ours=[], peer=[], skipped="refused"))))
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert "**invalid: training loss nan**" in text and "skipped: refused" in text and "785" in text, text
    assert {line.count(" | ") for line in tables[:5]} <= {9, 0}, text
    for chosen in CASES.values():
        ceilings_wanted([chosen])
        described(on_cpu(chosen))
    print("self check: no fault found")


def parse_words():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("tokenizer", nargs="?")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--python", default="python3")
    parser.add_argument("--out", help="folder for gpu_compare.json and gpu_compare.md")
    parser.add_argument("--ceilings", action="store_true", help="measure the card's ceilings and print floors")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and stop")
    parser.add_argument("--self_check", action="store_true", help="test this script's own arithmetic and stop")
    arguments = parser.parse_args()
    if not arguments.self_check and not (arguments.program and arguments.tokenizer):
        parser.error("PLIMSOLL and TOKENIZER_FOLDER are needed")
    unknown = [name for name in arguments.cases.split(",") if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    return arguments


def main():
    arguments = parse_words()
    if arguments.self_check:
        return self_check()
    # A run that is told to stop ends its child too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = {name: CASES[name] for name in arguments.cases.split(",")}
    if not arguments.device.startswith("cuda"):
        chosen = {name: on_cpu(one) for name, one in chosen.items()}
    gauge = Gauge("cpu" if arguments.dry_run else arguments.device)
    program, tokenizer = os.path.abspath(arguments.program), os.path.abspath(arguments.tokenizer)
    device = "cuda:0" if gauge.nvml else arguments.device
    ours, peer = Ours(program, tokenizer, device, gauge), Peer(arguments.python, tokenizer, device, gauge)
    if arguments.dry_run:
        return print_commands(chosen, (ours, peer))
    if arguments.out:
        os.makedirs(arguments.out, exist_ok=True)
    result = begin(header_of(program, peer, gauge), arguments.out)
    accepted = [p for p in dict.fromkeys(one["precision"] for one in chosen.values())
                if not ours.refusal(next(one for one in chosen.values() if one["precision"] == p))]
    held = {precision for precision, check in result["checks"].items() if check["ok"]}
    result["checks"].update(check_losses(ours, peer, [p for p in accepted if p not in held]))
    save(result, arguments.out)
    if arguments.ceilings:
        wanted = ceilings_wanted(one for one in chosen.values() if one["kind"] != "first_step" and one["precision"] in accepted)
        print("measuring ceilings", file=sys.stderr, flush=True)
        measured = peer.call("ceilings", json.dumps(wanted), peer.device)
        before = result["ceilings"] or dict(products={}, attention={})
        result["ceilings"] = dict(measured, products={**before["products"], **measured["products"]},
                                  attention={**before["attention"], **measured["attention"]})
        save(result, arguments.out)
    for name, one in chosen.items():
        run_case(name, one, (ours, peer), result, arguments)
    print(markdown(result), end="")
    bad = [name for name in chosen if "invalid" in result["cases"][name]]
    return 1 if bad or not all(c["ok"] for c in result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
