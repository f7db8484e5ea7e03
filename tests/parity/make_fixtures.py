#!/usr/bin/env python3
"""Makes the fixtures of tests/parity: tiny checkpoints, data files, and the results of training them with transformers' Trainer.

    python3 tests/parity/make_fixtures.py                   # all fixtures; needs torch 2.15, transformers 5.23
    python3 tests/parity/make_fixtures.py --case bert-sgd   # prints the cases whose name contains this text, and writes nothing
    python3 tests/parity/make_fixtures.py --bf16            # only bf16.json, the errors of Trainer's bf16 runs
    python3 tests/parity/make_fixtures.py --set electra     # only sets/electra.json and .safetensors, from sets/electra.py
    python3 tests/parity/compare.py --model DIR             # compares both engines on a real model

Trainer runs every case on a CPU, without dropout, with the rows in the order of the file. The fp64 run is the reference. The distance
of the fp32 run from it is the unit of the limits in the test. If the case accumulates gradients, a further run with accumulation gives the
values of `epoch`.

Trainer deviates from its documentation in two points, which the reference avoids:
 1. For models whose forward() has no argument num_items_in_batch (BERT, DistilBERT), Trainer 5.23 multiplies loss and gradient by the
    number a of accumulation steps. Plimsoll takes the mean over all sequences of the step. The reference for batch size b and a steps
    is therefore Trainer with batch size a * b and without accumulation.
 2. LabelSmoother adds log-probabilities up in fp32 whatever their type, and Trainer adds losses up in a tensor of the default type.
    In the fp64 run the sum therefore has the type of its terms, and the default type is fp64.

A set is a module in sets/ that adds models and cases: write_models() writes its checkpoints, write_data() its data files, if any, which
DATA describes in the form of PROBLEMS; CASES contains the arguments of case() for each case, and FIRST_BATCHES the pairs (model, problem)
whose first batch is compared. The JSON file of the set also contains the errors of Trainer's bf16 runs, except for models in WITHOUT_BF16.

Stored files: cases.json contains the arguments; loss, gradient norm, learning rate, epoch and evaluations per step; the errors of the
fp32 run; the steps at which Trainer logs, evaluates, saves and stops; and the files that run_glue.py writes. expected.safetensors contains
the updates of weights, and gradients, as projections: for each tensor PROJECTIONS sums of its elements with pseudo-random signs. The mean
square of the sums estimates |x|^2 without bias (Johnson and Lindenstrauss, 1984). Updates are stored in fp32, whose rounding error of
2^-25 is a hundredth of the measured differences, and gradients in fp64.
"""
import argparse
import importlib
import json
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

from projections import PROJECTIONS, norm, project, relative_error
from reference import first_batch, load_model, run_glue_outputs, run_pattern, run_reference, weights_of
from tiny import write_data, write_models

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 20
BATCH = 4


def base_arguments(model, data, problem, **more):
    arguments = {"model_name_or_path": f"models/{model}", "train_file": f"data/{data}", "problem_type": problem,
                 "max_seq_length": 48, "per_device_train_batch_size": BATCH, "max_steps": STEPS, "logging_steps": 1,
                 "train_sampling_strategy": "sequential", "learning_rate": 1e-3}
    arguments.update(more)
    return arguments


PROBLEMS = {"single": ("single.tsv", "single_label_classification", ""), "pairs": ("pairs.csv", "single_label_classification", ""),
            "regression": ("regression.jsonl", "regression", "_regression"),
            "multi-label": ("multi_label.jsonl", "multi_label_classification", ""),
            "tokens": ("tokens.jsonl", "token_classification", "_tokens")}
SEQUENCE_PROBLEMS = [problem for problem in PROBLEMS if problem != "tokens"]
SGD = {"optim": "sgd", "learning_rate": 0.05}


def case(name, model, problem="single", **more):
    data, kind, suffix = PROBLEMS[problem]
    settings = {"eval_strategy": "steps", "eval_steps": 5, "validation_file": f"data/{data}", **more}
    return {"name": name, "arguments": base_arguments(model + suffix, data, kind, **settings)}


def all_cases():
    cases = {}

    def add(name, model="bert", problem="single", **more):
        assert name not in cases
        cases[name] = case(name, model, problem, **more)

    for model in ("bert", "distilbert"):
        for problem in SEQUENCE_PROBLEMS:
            for optimizer, settings in (("adamw", {}), ("sgd", SGD)):
                for accumulation in (1, 3):
                    more = dict(settings, **({"gradient_accumulation_steps": 3} if accumulation == 3 else {}))
                    add(f"{model}-{problem}-{optimizer}-accumulation{accumulation}", model, problem, **more)
    plateau = {"eval_strategy": "steps", "eval_steps": 2, "validation_file": "data/single_validation.tsv",
               "lr_scheduler_kwargs": {"factor": 0.5, "patience": 1}}
    for schedule, more in (("cosine", {}), ("cosine_with_restarts", {"lr_scheduler_kwargs": {"num_cycles": 2}}),
                           ("polynomial", {"lr_scheduler_kwargs": {"power": 2.0, "lr_end": 1e-5}}), ("constant", {}),
                           ("constant_with_warmup", {}), ("inverse_sqrt", {}),
                           ("cosine_with_min_lr", {"lr_scheduler_kwargs": {"min_lr_rate": 0.1}}),
                           ("cosine_warmup_with_min_lr", {"lr_scheduler_kwargs": {"min_lr": 1e-4, "warmup_lr_rate": 0.2}}),
                           ("warmup_stable_decay", {"lr_scheduler_kwargs": {"num_decay_steps": 8, "min_lr_ratio": 0.1}}),
                           ("reduce_lr_on_plateau", plateau)):
        warmup = {} if schedule in ("constant", "reduce_lr_on_plateau") else {"warmup_steps": 4}
        add(f"bert-{schedule}", lr_scheduler_type=schedule, **warmup, **more)
    add("bert-linear-warmup-share", warmup_steps=0.25)
    add("bert-sgd-reduce_lr_on_plateau", **SGD, lr_scheduler_type="reduce_lr_on_plateau", **plateau)
    add("bert-adamw-weight-decay", weight_decay=0.1, learning_rate=3e-3)
    add("bert-sgd-weight-decay", optim="sgd", learning_rate=0.05, weight_decay=0.02)
    add("bert-adamw-clip", max_grad_norm=0.2)
    add("bert-sgd-clip", optim="sgd", learning_rate=0.2, max_grad_norm=0.2)
    add("bert-sgd-clip-accumulation3", optim="sgd", learning_rate=0.2, max_grad_norm=0.2, gradient_accumulation_steps=3)
    add("bert-adamw-no-clip", max_grad_norm=0.0)
    add("bert-adamw-betas", adam_beta1=0.8, adam_beta2=0.95, adam_epsilon=1e-6)
    add("bert-sgd-momentum", optim="sgd", learning_rate=0.02, optim_args={"momentum": "0.9"})
    add("bert-sgd-nesterov", optim="sgd", learning_rate=0.02, optim_args={"momentum": "0.9", "nesterov": "True"})
    for model in ("bert", "distilbert"):
        add(f"{model}-label-smoothing", model, label_smoothing_factor=0.1)
    add("bert-label-smoothing-accumulation3", label_smoothing_factor=0.1, gradient_accumulation_steps=3)
    add("bert-pairs-truncated", problem="pairs", max_seq_length=20)
    add("bert-all-together", problem="pairs", weight_decay=0.05, warmup_steps=3, lr_scheduler_type="cosine", max_grad_norm=0.5,
        label_smoothing_factor=0.1, gradient_accumulation_steps=3)
    add("distilbert-all-together", "distilbert", problem="pairs", weight_decay=0.05, warmup_steps=3, lr_scheduler_type="cosine",
        max_grad_norm=0.5, label_smoothing_factor=0.1, gradient_accumulation_steps=3)
    return list(cases.values())


def all_patterns():
    """Returns cases with different intervals of logging, evaluation and saving. The data has 26 rows, so an epoch has 7 batches of up to 4
    rows."""
    def pattern(**more):
        settings = base_arguments("bert", *PROBLEMS["single"][:2], validation_file="data/single_validation.tsv", save_strategy="no")
        settings.update(more)
        return {key: value for key, value in settings.items() if value is not None}

    by_epoch = {"logging_strategy": "epoch", "eval_strategy": "epoch", "save_strategy": "epoch"}
    return [pattern(logging_steps=3, logging_first_step=True, eval_strategy="steps", eval_steps=0.25, save_strategy="steps", save_steps=7),
            pattern(logging_steps=6, eval_strategy="steps", max_steps=10),
            pattern(max_steps=10, **by_epoch),
            pattern(max_steps=14, **by_epoch, eval_delay=2),
            pattern(max_steps=None, num_train_epochs=2.3, logging_steps=2, eval_strategy="steps", eval_steps=5, eval_delay=6),
            pattern(max_steps=None, num_train_epochs=1, dataloader_drop_last=True, per_device_train_batch_size=5),
            pattern(max_steps=None, num_train_epochs=2, per_device_train_batch_size=2, learning_rate=3e-3, eval_strategy="epoch",
                    save_strategy="epoch", load_best_model_at_end=True),
            pattern(learning_rate=5e-3, eval_strategy="steps", eval_steps=3, save_strategy="best", metric_for_best_model="loss"),
            pattern(learning_rate=5e-3, eval_strategy="steps", eval_steps=2, eval_on_start=True, lr_scheduler_type="reduce_lr_on_plateau",
                    lr_scheduler_kwargs={"factor": 0.5, "patience": 0}),
            # The loss decreases at every evaluation, but by less than the threshold, so the run stops early.
            pattern(learning_rate=1e-4, validation_file="data/single.tsv", eval_strategy="steps", eval_steps=2, eval_on_start=True,
                    metric_for_best_model="loss", early_stopping_patience=3, early_stopping_threshold=0.01),
            pattern(learning_rate=5e-3, eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2,
                    load_best_model_at_end=True, early_stopping_patience=2)]


def all_outputs():
    def outputs(**more):
        return base_arguments("bert", *PROBLEMS["single"][:2], validation_file="data/single.tsv",
                              eval_strategy="steps", **more)

    return [outputs(eval_steps=8),
            outputs(eval_steps=4, save_steps=4, learning_rate=5e-3, load_best_model_at_end=True, early_stopping_patience=2),
            outputs(eval_steps=10, save_strategy="no", metric_for_best_model="loss", include_num_input_tokens_seen="non_padding")]


def has_zero_gradient(name):
    """Returns true for key biases. Their exact gradient is zero, because softmax ignores them. A run computes only rounding errors for
    them, which AdamW turns into steps of full size. Key biases are compared separately, so that they do not hide errors of other tensors."""
    return name.endswith(("self.key.bias", "k_lin.bias"))


def measure(case):
    """Runs the case in fp64 and fp32 and returns the values that the test compares."""
    exact, exact_weights = run_reference(case, torch.float64)
    single, single_weights = run_reference(case, torch.float32)
    plain = exact
    if case["arguments"].get("gradient_accumulation_steps", 1) > 1:
        plain, _ = run_reference(case, torch.float32, accumulate=True)
    start = weights_of(load_model(case["arguments"]["model_name_or_path"], case["arguments"]["problem_type"], torch.float32))
    update = {name: exact_weights[name] - start[name] for name in start}
    trained = [name for name in update if not has_zero_gradient(name)]
    column = lambda recorder, key: [entry[key] for entry in recorder.steps]
    assert len(exact.steps) == case["arguments"]["max_steps"]
    assert np.allclose(column(exact, "learning_rate"), column(single, "learning_rate"), rtol=1e-12), "the fp32 run took another path"
    result = {"loss": column(exact, "loss"), "grad_norm": column(exact, "grad_norm"),
              "learning_rate": column(exact, "learning_rate"), "epoch": column(plain, "epoch"),
              "eval_loss": [entry["eval_loss"] for entry in exact.evaluations],
              "train_loss": exact.end["train_loss"], "update_norm": norm(update.values()),
              "fp32_loss_error": relative_error(column(single, "loss"), column(exact, "loss")),
              "fp32_grad_norm_error": relative_error(column(single, "grad_norm"), column(exact, "grad_norm")),
              "fp32_weight_error": norm([single_weights[n] - exact_weights[n] for n in trained]) / norm(update.values()),
              "fp32_key_bias_error": norm([single_weights[n] - exact_weights[n] for n in update if n not in trained]) / norm(update.values())}
    if exact.evaluations:
        result["fp32_eval_loss_error"] = relative_error([e["eval_loss"] for e in single.evaluations], result["eval_loss"])
    names = sorted(update)
    return result, names, np.stack([project(name, update[name]) for name in names]).astype(np.float32)


def measure_cases(wanted, tensors, names_of):
    cases = []
    for case in wanted:
        result, names, projections = measure(case)
        model = case["arguments"]["model_name_or_path"].split("/")[1]
        assert names_of.setdefault(model, names) == names
        tensors[f"update/{case['name']}"] = projections
        cases.append(dict(case, model=model, expected=result))
        print(f"{case['name']:44s} loss {result['loss'][0]:.4f} -> {result['loss'][-1]:.4f}  fp32 errors: loss "
              f"{result['fp32_loss_error']:.1e} norm {result['fp32_grad_norm_error']:.1e} weights {result['fp32_weight_error']:.1e}", flush=True)
    return cases


def first_step(kind, problem, tensors):
    data, problem_type, suffix = PROBLEMS[problem]
    path = f"models/{kind}{suffix}"
    logits, loss, gradients = first_batch(path, f"data/{data}", problem_type, torch.float64)
    logits32, loss32, gradients32 = first_batch(path, f"data/{data}", problem_type, torch.float32)
    names = sorted(gradients)
    name = f"{kind}-{problem}"
    tensors[f"logits/{name}"] = logits
    tensors[f"gradient/{name}"] = np.stack([project(n, gradients[n]) for n in names])
    return {"name": name, "model": kind + suffix, "data": data, "problem_type": problem_type, "loss": loss,
            "gradient_norms": [norm([gradients[n]]) for n in names],
            "fp32_loss_error": abs(loss32 - loss) / abs(loss),
            "fp32_logits_error": norm([logits32 - logits]) / norm([logits]),
            "fp32_gradient_errors": [norm([gradients32[n] - gradients[n]]) for n in names]}


MADE_WITH = {"torch": torch.__version__, "transformers": transformers.__version__}


def make_all():
    write_models("models")
    write_data("data")
    tensors, names_of = {}, {}
    cases = measure_cases(all_cases(), tensors, names_of)
    steps = [first_step(kind, problem, tensors) for kind in ("bert", "distilbert") for problem in SEQUENCE_PROBLEMS]
    save_file(tensors, "expected.safetensors", metadata={"format": "pt"})
    text = compact({"made_with": MADE_WITH, "projections": PROJECTIONS, "outputs": [run_glue_outputs(settings) for settings in all_outputs()],
                    "patterns": [run_pattern(settings) for settings in all_patterns()],
                    "tensor_names": names_of, "cases": cases, "first_batches": steps})
    with open("cases.json", "w") as f:
        f.write(text)


def make_set(name):
    sys.path.insert(0, os.path.join(HERE, "sets"))
    module = importlib.import_module(name)
    module.write_models("models")
    if hasattr(module, "write_data"):
        module.write_data("data")
    PROBLEMS.update(getattr(module, "DATA", {}))
    tensors, names_of = {}, {}
    wanted = [case(*names, **settings) for names, settings in module.CASES]
    cases = measure_cases(wanted, tensors, names_of)
    for measured in cases:
        if measured["model"] in getattr(module, "WITHOUT_BF16", {}):
            measured["without_bf16"] = module.WITHOUT_BF16[measured["model"]]
    wanted = [case for case, measured in zip(wanted, cases) if "without_bf16" not in measured]
    steps = [first_step(model, problem, tensors) for model, problem in module.FIRST_BATCHES]
    save_file(tensors, f"sets/{name}.safetensors", metadata={"format": "pt"})
    with open(f"sets/{name}.json", "w") as f:
        f.write(compact({"made_with": MADE_WITH, "tensor_names": names_of, "cases": cases, "first_batches": steps,
                         "bf16_errors": bf16_errors(wanted)}))


def measure_bf16(case):
    """Returns the errors of Trainer with bf16=True (autocast on a CPU), relative to its fp64 run. The test derives its limits for 16-bit
    precisions from them."""
    exact, exact_weights = run_reference(case, torch.float64)
    half, half_weights = run_reference(case, torch.float32, bf16=True)
    start = weights_of(load_model(case["arguments"]["model_name_or_path"], case["arguments"]["problem_type"], torch.float32))
    trained = [name for name in start if not has_zero_gradient(name)]
    column = lambda rows, key: [entry[key] for entry in rows]
    error = lambda key: relative_error(column(half.steps, key), column(exact.steps, key))
    update = norm([exact_weights[n] - start[n] for n in start])
    return {"loss": error("loss"), "grad_norm": error("grad_norm"),
            "eval_loss": relative_error(column(half.evaluations, "eval_loss"), column(exact.evaluations, "eval_loss")),
            "weights": norm([half_weights[n] - exact_weights[n] for n in trained]) / update}


def bf16_errors(cases):
    errors = {}
    for case in cases:
        errors[case["name"]] = {k: float(f"{v:.3g}") for k, v in measure_bf16(case).items()}
        print(f"{case['name']:44s} " + " ".join(f"{k} {v:.1e}" for k, v in errors[case["name"]].items()), flush=True)
    return errors


def make_bf16():
    with open("bf16.json", "w") as f:
        f.write(compact({"made_with": MADE_WITH, "errors": bf16_errors(all_cases())}))


def compact(value, indent=0):
    """Formats a value as JSON. Lists of numbers are written on one line."""
    pad = " " * (indent + 1)
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"{pad}{json.dumps(k)}: {compact(v, indent + 1)}" for k, v in value.items()) + "\n" + " " * indent + "}" + ("\n" if indent == 0 else "")
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + compact(v, indent + 1) for v in value) + "\n" + " " * indent + "]"
    return json.dumps(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--case")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--set")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.chdir(HERE)
    if arguments.bf16:
        return make_bf16()
    if arguments.set:
        return make_set(arguments.set)
    if not arguments.case:
        return make_all()
    for case in all_cases():
        if arguments.case in case["name"]:
            print(case["name"], json.dumps(measure(case)[0], indent=1))


if __name__ == "__main__":
    sys.exit(main())
