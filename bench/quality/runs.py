"""Fine-tunes a pretrained encoder on labelled text with Hugging Face's Trainer and with Plimsoll, with the same arguments.

Code that loss_curves.py and accuracy.py share; it does not judge results. PyTorch and transformers are only imported in the
process that runs Trainer.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402

MAX_LENGTH = 128


def read_rows(path):
    """Returns [(sentence, label)] of a TSV with these columns."""
    rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    sentence, label = rows[0].index("sentence"), rows[0].index("label")
    return [(row[sentence], row[label]) for row in rows[1:]]


class TrainerRuns:
    """Runs Trainer several times on one training file, which is tokenized once at the start."""

    def __init__(self, model, train, device):
        from transformers import AutoTokenizer
        self.model, self.device = model, device
        rows = read_rows(train)
        self.labels = sorted({label for _, label in rows})
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.data = self.tokens_of(rows)

    def tokens_of(self, rows):
        tokens = self.tokenizer([text for text, _ in rows], truncation=True, max_length=MAX_LENGTH)
        return [dict(input_ids=ids, labels=self.labels.index(label)) for ids, (_, label) in zip(tokens["input_ids"], rows)]

    def run(self, seed, arguments, evaluation=None, dtype="float32", adapt=lambda model: model):
        """Trains adapt(pretrained model). Returns the loss of every logged step, and the accuracy on `evaluation` or None."""
        import torch
        from transformers import (AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer, TrainerCallback,
                                  TrainingArguments, set_seed)
        losses = []

        class Recorder(TrainerCallback):
            def on_log(self, arguments, state, control, logs=None, **more):
                if "loss" in logs:
                    losses.append(logs["loss"])

        set_seed(seed)
        model = adapt(AutoModelForSequenceClassification.from_pretrained(
            self.model, num_labels=len(self.labels), dtype=getattr(torch, dtype)))
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                model=model, train_dataset=self.data, eval_dataset=evaluation, callbacks=[Recorder()],
                args=TrainingArguments(folder, seed=seed, save_strategy="no", report_to=[], disable_tqdm=True,
                                       use_cpu=self.device == "cpu", **arguments),
                data_collator=DataCollatorWithPadding(self.tokenizer),
                compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())})
            device = devices.trainer_device(trainer)
            if wrong := devices.wrong_device(self.device, device):
                sys.exit("Trainer " + wrong)
            # trainer_precision() measures products of fp32 matrices. If the weights have 16 bits, the products have the
            # type of the weights.
            products = devices.trainer_precision(trainer) if dtype == "float32" else dtype
            print(f"Trainer, seed {seed}: {device}, products in {products}", file=sys.stderr, flush=True)
            trainer.train()
            accuracy = trainer.evaluate()["eval_accuracy"] if evaluation else None
        return losses, accuracy


def plimsoll_run(program, model, train, device, seed, arguments, validation=None):
    """Runs Plimsoll and returns the same as for Trainer. An argument whose value in the dictionary is None is given without a value."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "train", "--model_name_or_path", model, "--train_file", train, "--max_seq_length", str(MAX_LENGTH),
                   "--save_strategy", "no", "--seed", str(seed), "--device", devices.visible_name(device), "--output_dir", folder]
        if validation:
            command += ["--validation_file", validation, "--do_eval"]
        for key, value in arguments.items():
            command += [f"--{key}"] + ([] if value is None else [str(value)])
        done = subprocess.run(command, capture_output=True, text=True, env=devices.environment_for(device))
        if done.returncode != 0:
            sys.exit(f"exit code {done.returncode} of {' '.join(command)}:\n{done.stderr[-2000:]}")
        used = devices.plimsoll_device(done.stderr + done.stdout)
        if wrong := devices.wrong_device(device, used):
            sys.exit("Plimsoll " + wrong)
        print(f"Plimsoll, seed {seed}: {used}, {program}", file=sys.stderr, flush=True)
        entries = [json.loads(line) for line in open(os.path.join(folder, "log.jsonl"))]
        accuracy = json.load(open(os.path.join(folder, "all_results.json")))["eval_accuracy"] if validation else None
        return [entry["loss"] for entry in entries if "loss" in entry], accuracy


def start_peer(python, script, words, device):
    """Starts `script WORDS --peer` in a separate process. answer_of() returns its result, the last line of its output as JSON."""
    return subprocess.Popen([python, script, *words, "--peer"], stdout=subprocess.PIPE, text=True,
                            env=dict(devices.environment_for(device), HF_HUB_OFFLINE="1"))


def answer_of(peer):
    text = peer.communicate()[0]
    if peer.returncode != 0:
        sys.exit(f"Trainer ended with {peer.returncode}")
    return json.loads(text.strip().splitlines()[-1])


def student_cdf(t, degrees):
    """Returns the probability that a value of Student's distribution is at most t (Simpson's rule). Requires: t >= 0."""
    density = lambda x: (1 + x * x / degrees) ** (-(degrees + 1) / 2)
    scale = math.gamma((degrees + 1) / 2) / (math.sqrt(degrees * math.pi) * math.gamma(degrees / 2))
    n = 4000
    width = t / n
    inner = sum((4 if i % 2 else 2) * density(i * width) for i in range(1, n))
    return 0.5 + scale * width / 3 * (density(0) + inner + density(t))


def student_bound(level, degrees):
    """Returns the value that |t| of Student's distribution exceeds with probability `level`."""
    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if 2 * (1 - student_cdf(middle, degrees)) > level else (low, middle)
    return high
