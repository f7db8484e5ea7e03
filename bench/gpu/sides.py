"""The two sides of compare.py: Plimsoll's program and Hugging Face's Trainer (peer.py), with one process per run."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402
from cases import (CHECK_LABELS, CHECK_ROWS, MIB, MODELS, PRECISION_WORDS, SHORT_ROWS, loss_bound, read_json, short_lengths,
                   write_json, write_texts)
from watched import Watched

HERE = os.path.dirname(os.path.abspath(__file__))


def steady(log, samples_per_step, steps):
    """Returns the samples/s after the first third of the steps, from the records of log.jsonl: the mean speed from the first
    record there to the last, the speeds between neighbouring records, and the steps of the first and the last record."""
    records = [r for r in log if "loss" in r and "train_runtime" in r and r["step"] >= max(2, steps // 3)]
    if len(records) < 2:
        raise ValueError(f"{len(records)} records of the log after the warm-up, two are needed")
    rates = [samples_per_step * (b["step"] - a["step"]) / (b["train_runtime"] - a["train_runtime"])
             for a, b in zip(records, records[1:])]
    first, last = records[0], records[-1]
    rate = samples_per_step * (last["step"] - first["step"]) / (last["train_runtime"] - first["train_runtime"])
    return dict(samples_per_s=rate, intervals=rates, from_step=first["step"], to_step=last["step"])


def arrivals(lines):
    """Returns for each logged step the time, in seconds since the start, at which this script received its progress line."""
    found = ((re.match(r"step +(\d+)/", text), seconds) for seconds, text in lines)
    return {int(match.group(1)): seconds for match, seconds in found if match}


class Ours:
    def __init__(self, program, tokenizer, device, gauge):
        self.program, self.tokenizer, self.device, self.gauge = program, tokenizer, device, gauge

    def words(self, one, folder, rows=None):
        """Returns the command line that runs a case. Its input and output files are in `folder`."""
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
        """Returns the reason why the program refuses the precision, or None. Other errors appear when the case runs."""
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
            used = devices.plimsoll_device("\n".join(text for _, text in done.lines))
            if wrong := devices.wrong_device(self.device, used):
                return dict(error=wrong)
            with open(os.path.join(folder, "out", "log.jsonl"), encoding="utf-8") as file:
                log = [json.loads(line) for line in file]
            memory = read_json(os.path.join(folder, "out", "memory.json"))
            return dict(train_figures(one, log, memory, done), device=used)

    def evaluate(self, one, folder):
        """Measures the speed of an evaluation without its start-up: difference of rows by difference of times of a long and a short run."""
        runtimes, losses = [], []
        counts = [one["batch"] * max(2, one["ours_steps"] // 9), one["batch"] * one["ours_steps"]]
        for rows in counts:
            done = Watched(self.words(one, folder, rows), self.gauge, 400)
            if done.error():
                return dict(error=done.error())
            used = devices.plimsoll_device("\n".join(text for _, text in done.lines))
            if wrong := devices.wrong_device(self.device, used):
                return dict(error=wrong)
            results = read_json(os.path.join(folder, "out", "eval_results.json"))
            runtimes.append(results["eval_runtime"])
            losses.append(results["eval_loss"])
        predicted = read_json(os.path.join(folder, "plan.json"))["total_bytes"] / MIB
        return dict(samples_per_s=(counts[1] - counts[0]) / (runtimes[1] - runtimes[0]), loss=losses[1], runtimes=runtimes,
                    rows=counts, device=used, nvml_mib=done.peak_mib, predicted_mib=predicted)

    def loss_of(self, folder, precision):
        """Returns the loss that Plimsoll computes for the small random model; check_losses() compares it with Trainer's."""
        out = os.path.join(folder, "ours_" + precision)
        done = Watched(self.check_words(folder, precision, out), self.gauge, 200)
        if done.error():
            raise RuntimeError(done.error())
        used = devices.plimsoll_device("\n".join(text for _, text in done.lines))
        if wrong := devices.wrong_device(self.device, used):
            raise RuntimeError("Plimsoll " + wrong)
        return read_json(os.path.join(out, "eval_results.json"))["eval_loss"]

    def check_words(self, folder, precision, out):
        return [self.program, "eval", "--model_name_or_path", os.path.join(folder, "model"), "--validation_file",
                os.path.join(folder, "check.tsv"), "--max_seq_length", "128", "--per_device_eval_batch_size", "32",
                "--device", self.device, "--output_dir", out, *PRECISION_WORDS[precision]]


def train_figures(one, log, memory, done):
    """Returns the measurements of a finished training run of Plimsoll, or an "error" if its log and this script measure different times."""
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


def wrong_peer(device, precision, figures):
    """Returns the reason why a run of Trainer is excluded (its device or type of products is not the requested one), or None."""
    return devices.wrong_device(device, figures.get("device")) or devices.wrong_precision(precision, figures.get("precision"))


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
        if wrong := wrong_peer(self.device, one["precision"], figures):
            return dict(error=wrong)
        first = [seconds for seconds, text in done.lines if text == "first step done"]
        figures["first_step_s"] = first[0] if first else None
        return figures

    def call(self, *arguments, on_line=None):
        done = Watched(self.words(*arguments), self.gauge, 400, on_line)
        if done.error():
            raise RuntimeError(done.error())
        return done.json_line()


def check_losses(ours, peer, precisions):
    """Returns for each precision the losses of both programs on the same weights and texts, their relative difference and its bound."""
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
                found = peer.call("loss", model, data, precision, peer.device)
                if wrong := wrong_peer(peer.device, precision, found):
                    raise RuntimeError("Trainer " + wrong)
                row["peer"] = found["loss"]
                row["difference"] = abs(row["ours"] - row["peer"]) / abs(row["peer"])
                row["ok"] = row["difference"] <= row["bound"]
            except (RuntimeError, OSError, KeyError, IndexError, ValueError) as error:
                row.update(ok=False, error=str(error))
            checks[precision] = row
            print(f"loss on the same weights, {precision}: {json.dumps(row)}", file=sys.stderr, flush=True)
    return checks
