"""Trains with transformers' Trainer for tests/parity. make_fixtures.py states how the runs differ from Trainer's defaults and why."""
import csv
import json
import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
from transformers import (AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer,
                          DataCollatorForTokenClassification, DataCollatorWithPadding, EarlyStoppingCallback, PrinterCallback, Trainer,
                          TrainerCallback, TrainingArguments)

from tiny import LABELS

# These settings belong to the script that reads the data; TrainingArguments does not have them.
SCRIPT_ARGUMENTS = {"max_seq_length", "problem_type", "model_name_or_path", "train_file", "validation_file",
                    "early_stopping_patience", "early_stopping_threshold"}


def read_rows(path):
    """Reads a data file and returns its rows in order, as tuples (text, second text or None, label)."""
    if path.endswith(".jsonl"):
        rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    elif path.endswith(".tsv"):
        rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
        rows = [dict(zip(rows[0], row)) for row in rows[1:]]
    else:
        rows = list(csv.DictReader(open(path, encoding="utf-8", newline="")))
    pair = "sentence2" in rows[0]
    return [(row["sentence1"] if pair else row["sentence"], row["sentence2"] if pair else None, row["label"]) for row in rows]


class WordRows(torch.utils.data.Dataset):
    """Rows of words with tags. As in run_ner.py, the first token of a word has its label, and all other tokens have -100."""

    def __init__(self, path, tokenizer, label2id, max_length):
        self.rows = []
        for line in open(path, encoding="utf-8"):
            row = json.loads(line)
            encoded = tokenizer(row["tokens"], is_split_into_words=True, truncation=True, max_length=max_length)
            words = encoded.word_ids()
            firsts = [word is not None and (i == 0 or words[i - 1] != word) for i, word in enumerate(words)]
            labels = [label2id[row["tags"][word]] if first else -100 for word, first in zip(words, firsts)]
            self.rows.append(dict(encoded, labels=labels))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def read_dataset(path, tokenizer, model, problem, max_length):
    if problem == "token_classification":
        return WordRows(path, tokenizer, model.config.label2id, max_length)
    return Rows(path, tokenizer, problem, max_length)


def collator_of(tokenizer, problem):
    return DataCollatorForTokenClassification(tokenizer) if problem == "token_classification" else DataCollatorWithPadding(tokenizer)


class Rows(torch.utils.data.Dataset):
    def __init__(self, path, tokenizer, problem, max_length):
        self.rows = []
        for first, second, label in read_rows(path):
            row = dict(tokenizer(first, second, truncation=True, max_length=max_length))
            if problem == "regression":
                row["label"] = float(label)
            elif problem == "multi_label_classification":
                row["label"] = [float(name in label) for name in LABELS]
            else:
                row["label"] = LABELS.index(label)
            self.rows.append(row)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class ExactLabelSmoother:
    """The LabelSmoother of transformers, except that it adds up the log-probabilities in their own data type instead of fp32."""

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def __call__(self, outputs, labels, shift_labels=False, num_items_in_batch=None):
        is_labelled = labels != -100
        log_probs = torch.nn.functional.log_softmax(outputs["logits"], dim=-1)[is_labelled]
        nll = -log_probs.gather(1, labels[is_labelled].unsqueeze(1)).mean()
        smooth = -log_probs.sum(dim=1).mean() / log_probs.shape[1]
        return (1 - self.epsilon) * nll + self.epsilon * smooth


class Recorder(TrainerCallback):
    def __init__(self):
        self.steps, self.evaluations, self.end = [], [], {}

    def on_log(self, args, state, control, logs=None, **kwargs):
        entry = dict(logs, epoch=state.epoch, step=state.global_step)
        if "loss" in logs:
            self.steps.append(entry)
        elif "eval_loss" in logs:
            self.evaluations.append(entry)
        else:
            self.end = entry


def load_model(path, problem, dtype):
    if problem == "token_classification":
        return AutoModelForTokenClassification.from_pretrained(path, dtype=torch.float32).to(dtype)
    model = AutoModelForSequenceClassification.from_pretrained(path, dtype=torch.float32)
    model.config.problem_type = problem
    return model.to(dtype)


def weights_of(model):
    return {name: p.detach().to(torch.float64).numpy().copy() for name, p in model.named_parameters()}


def run_reference(case, dtype, accumulate=False, adapt=lambda model: model, **settings):
    """Trains a case with Trainer and returns its records and the weights. `adapt` changes the model before training, for example by
    freezing parameters or adding adapters."""
    torch.set_default_dtype(dtype)
    path = case["arguments"]["model_name_or_path"]
    problem = case["arguments"]["problem_type"]
    length = case["arguments"]["max_seq_length"]
    tokenizer = AutoTokenizer.from_pretrained(path)
    validation = case["arguments"].get("validation_file")
    keywords = {k: v for k, v in case["arguments"].items() if k not in SCRIPT_ARGUMENTS}
    keywords.update(settings)
    keywords.setdefault("gradient_accumulation_steps", 1)
    if not accumulate:
        keywords["per_device_train_batch_size"] *= keywords["gradient_accumulation_steps"]
        keywords["gradient_accumulation_steps"] = 1
    if "optim_args" in keywords:
        keywords["optim_args"] = ",".join(f"{k}={v}" for k, v in keywords["optim_args"].items())
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True, **keywords)
        model = adapt(load_model(path, problem, dtype))
        dataset = lambda file: read_dataset(file, tokenizer, model, problem, length)
        trainer = Trainer(model=model, args=arguments, train_dataset=dataset(case["arguments"]["train_file"]), callbacks=[recorder],
                          eval_dataset=dataset(validation) if validation else None,
                          data_collator=collator_of(tokenizer, problem))
        trainer.remove_callback(PrinterCallback)
        if arguments.label_smoothing_factor:
            trainer.label_smoother = ExactLabelSmoother(arguments.label_smoothing_factor)
        trainer.train()
    torch.set_default_dtype(torch.float32)
    return recorder, weights_of(model)


def first_batch(path, data, problem, dtype, smoothing=0.0):
    """Returns logits, loss and gradients of one batch, the first 8 rows. For token classification the logits are those of the first token
    of each word."""
    torch.set_default_dtype(dtype)
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = load_model(path, problem, dtype).train()  # dropout is 0
    rows = read_dataset(data, tokenizer, model, problem, 48)
    batch = collator_of(tokenizer, problem)([rows[i] for i in range(8)])
    outputs = model(**batch)
    outputs.loss.backward()
    torch.set_default_dtype(torch.float32)
    gradients = {name: p.grad.to(torch.float64).numpy().copy() for name, p in model.named_parameters()}
    logits = outputs.logits.detach().to(torch.float64)
    if problem == "token_classification":
        logits = logits[batch["labels"] != -100]
    return logits.numpy(), float(outputs.loss), gradients


def callbacks_of(settings):
    patience = settings.get("early_stopping_patience")
    return [EarlyStoppingCallback(patience, settings.get("early_stopping_threshold", 0.0))] if patience else []


def types_of(values):
    """Returns the name of the JSON type of each value, by key."""
    names = {bool: "boolean", int: "integer", float: "real", str: "text", list: "list", dict: "object", type(None): "null"}
    return {key: names[type(value)] for key, value in sorted(values.items())}


def card_outline(text):
    """Returns the keys of a model card's front matter, its headings except the title, and the header of its table of results."""
    _, front, body = text.split("---\n", 2)
    return {"keys": sorted(line.split(":")[0] for line in front.splitlines() if line[0] not in " -"),
            "headings": [line.lstrip("#").strip() for line in body.splitlines() if line.startswith("##")],
            "columns": next((line for line in body.splitlines() if line.startswith("| Training Loss")), "").replace(" ", "")}


def run_glue_outputs(settings):
    """Trains like run_glue.py and returns what the test compares: the names of the output files, their keys and types, and the values that
    do not depend on the clock."""
    path, problem, length = settings["model_name_or_path"], settings["problem_type"], settings["max_seq_length"]
    tokenizer = AutoTokenizer.from_pretrained(path)
    rows = Rows(settings["train_file"], tokenizer, problem, length)
    keywords = {k: v for k, v in settings.items() if k not in SCRIPT_ARGUMENTS}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True, report_to=[], disable_tqdm=True, **keywords)
        model = load_model(path, problem, torch.float32)
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows, callbacks=callbacks_of(settings),
                          data_collator=DataCollatorWithPadding(tokenizer), processing_class=tokenizer,
                          compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(axis=1) == p.label_ids).mean())})
        trainer.remove_callback(PrinterCallback)  # this callback would remove total_flos from the metrics that Trainer logs
        metrics = trainer.train().metrics
        metrics["train_samples"] = len(rows)
        trainer.save_model()
        trainer.save_metrics("train", metrics)
        trainer.save_state()  # the state must be saved here, because evaluate() adds a record to it that run_glue.py does not save
        metrics = trainer.evaluate()
        metrics["eval_samples"] = len(rows)
        trainer.save_metrics("eval", metrics)
        trainer.create_model_card(finetuned_from=path, tasks="text-classification")
        read = lambda name: json.load(open(os.path.join(folder, name)))
        state = read("trainer_state.json")
        history = state.pop("log_history")
        if state["best_model_checkpoint"]:
            state["best_model_checkpoint"] = os.path.basename(state["best_model_checkpoint"])
        kinds = (("step", "loss"), ("evaluation", "eval_loss"), ("end", "train_loss"))
        config = read("config.json")
        for key in ("transformers_version", "use_cache"):  # Plimsoll keeps these keys as they are in the original configuration
            config.pop(key)
        with open(os.path.join(folder, "README.md"), encoding="utf-8") as card:
            outline = card_outline(card.read())
        return {"arguments": settings, "files": sorted(os.listdir(folder)), "config": config, "card": outline,
                "train_results": types_of(read("train_results.json")), "eval_results": types_of(read("eval_results.json")),
                "all_results": types_of(read("all_results.json")), "trainer_state": state, "state_types": types_of(state),
                "log_counts": {kind: sum(key in entry for entry in history) for kind, key in kinds},
                "log_types": {kind: types_of(next(entry for entry in history if key in entry)) for kind, key in kinds}}


def run_pattern(settings):
    """Returns the steps at which Trainer logs, evaluates and saves, with the loss, learning rate and epoch of each record."""
    path, problem, length = settings["model_name_or_path"], settings["problem_type"], settings["max_seq_length"]
    tokenizer = AutoTokenizer.from_pretrained(path)
    rows = Rows(settings["train_file"], tokenizer, problem, length)
    keywords = {k: v for k, v in settings.items() if k not in SCRIPT_ARGUMENTS}
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True, report_to=[], disable_tqdm=True, **keywords)
        trainer = Trainer(model=load_model(path, problem, torch.float32), args=arguments, train_dataset=rows,
                          eval_dataset=Rows(settings["validation_file"], tokenizer, problem, length), callbacks=[recorder] + callbacks_of(settings),
                          data_collator=DataCollatorWithPadding(tokenizer))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        checkpoints = sorted(int(name.split("-")[1]) for name in os.listdir(folder) if name.startswith("checkpoint-"))
    state = trainer.state
    return {"arguments": settings,
            "records": [[entry["step"], entry["epoch"], entry["learning_rate"], entry["loss"]] for entry in recorder.steps],
            "evaluations": [[entry["step"], entry["epoch"], entry["eval_loss"]] for entry in recorder.evaluations],
            "checkpoints": checkpoints, "best_step": state.best_global_step, "best_metric": state.best_metric,
            "last_step": state.global_step, "max_steps": state.max_steps, "num_train_epochs": state.num_train_epochs}
