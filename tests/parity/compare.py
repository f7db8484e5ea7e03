#!/usr/bin/env python3
"""Compares Plimsoll and transformers' Trainer on a real checkpoint without dropout. Trainer in fp64 is the reference for both.

    python3 tests/parity/compare.py --model DIR [--plimsoll build/plimsoll] [--steps 20]

DIR is the folder of a BERT or DistilBERT with its tokenizer, such as the MiniLM that the demo downloads. The script initialises a new
head, so that both engines start from the same file. It trains on data/pairs.csv with AdamW, with SGD, and with gradient accumulation. For
losses, gradient norms and weights it prints the error of each engine and the quotient of the errors. It also prints whether transformers
can load the result and computes the same logits.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench"))
import devices  # noqa: E402

# The environment is replaced before PyTorch is imported, so that the references are computed on a CPU and in the stated data types.
environment = devices.environment_for("cpu")
os.environ.clear()
os.environ.update(environment)
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from make_fixtures import HERE, base_arguments, has_zero_gradient
from projections import norm, relative_error
from reference import load_model, read_rows, run_reference, weights_of
from tiny import LABELS


def one_run(name, start, plimsoll, folder, case):
    """Trains one case with both engines and prints the distances of both from the fp64 run."""
    exact, exact_weights = run_reference(case, torch.float64)
    single, single_weights = run_reference(case, torch.float32)
    before = weights_of(load_model(start, "single_label_classification", torch.float32))
    output = os.path.join(folder, "out-" + name.replace(" ", "-"))
    words = [plimsoll, "train", "--use_cpu", "--output_dir", output, "--save_strategy", "no"]
    for key, value in case["arguments"].items():
        words += [f"--{key}", str(value)]
    with open(os.path.join(folder, "log"), "w") as log:
        code = subprocess.run(words, stdout=log, stderr=log, env=devices.environment_for("cpu")).returncode
    said = open(os.path.join(folder, "log"), encoding="utf-8").read()
    if code != 0:
        sys.exit(said)
    used = devices.plimsoll_device(said)
    if wrong := devices.wrong_device("cpu", used):
        sys.exit("Plimsoll " + wrong)
    print(f"Plimsoll on {used}, Trainer on a CPU")
    entries = [json.loads(line) for line in open(os.path.join(output, "log.jsonl"))]
    ours = [entry for entry in entries if "loss" in entry]
    our_weights = load_file(os.path.join(output, "model.safetensors"))
    trained = [n for n in before if not has_zero_gradient(n)]
    update = norm([exact_weights[n] - before[n] for n in before])
    wrong = lambda weights, names: norm([weights[n].astype(np.float64) - exact_weights[n] for n in names]) / update
    column = lambda rows, key: [row[key] for row in rows]
    print(f"{name}: loss {exact.steps[0]['loss']:.4f} -> {exact.steps[-1]['loss']:.4f} over {len(ours)} steps")
    figures = [(key, relative_error(column(ours, key), column(exact.steps, key)),
                relative_error(column(single.steps, key), column(exact.steps, key))) for key in ("loss", "grad_norm")]
    figures.append(("weights", wrong(our_weights, trained), wrong(single_weights, trained)))
    figures.append(("all weights", wrong(our_weights, before), wrong(single_weights, before)))
    for what, mine, theirs in figures:
        print(f"  {what:12s} Plimsoll {mine:.2e}  Trainer fp32 {theirs:.2e}  ratio {mine / theirs:.2f}", flush=True)
    return output


def check_saved(output, plimsoll, length):
    """Checks that transformers can load the saved model, and that both engines compute the same loss from it."""
    model, info = AutoModelForSequenceClassification.from_pretrained(output, dtype=torch.float32, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    assert [model.config.id2label[i] for i in range(len(LABELS))] == LABELS
    tokenizer = AutoTokenizer.from_pretrained(output)
    losses, hits = [], 0
    with torch.no_grad():
        for first, second, label in read_rows("data/pairs.csv"):
            batch = tokenizer(first, second, truncation=True, max_length=length, return_tensors="pt")
            result = model(**batch, labels=torch.tensor([LABELS.index(label)]))
            losses.append(float(result.loss))
            hits += int(result.logits.argmax()) == LABELS.index(label)
    evaluation = os.path.join(output, "evaluation")
    subprocess.run([plimsoll, "eval", "--use_cpu", "--model_name_or_path", output, "--validation_file", "data/pairs.csv", "--max_seq_length",
                    str(length), "--output_dir", evaluation], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=devices.environment_for("cpu"))
    ours = json.load(open(os.path.join(evaluation, "eval_results.json")))
    theirs = sum(losses) / len(losses)
    print(f"  from_pretrained opens the result, no key missing or left over; eval_loss {ours['eval_loss']:.7f}, transformers "
          f"{theirs:.7f}; eval_accuracy {ours['eval_accuracy']:.4f}, transformers {hits / len(losses):.4f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--plimsoll", default="build/plimsoll")
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(max(1, devices.available_threads() // 2))
    if wrong := devices.wrong_precision("fp32", devices.product_precision("cpu")):
        sys.exit("PyTorch " + wrong)
    plimsoll, model = devices.measured_program(arguments.plimsoll), os.path.abspath(arguments.model)
    os.chdir(HERE)
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(3)
        start = os.path.join(folder, "start")
        names = {"id2label": dict(enumerate(LABELS)), "label2id": {n: i for i, n in enumerate(LABELS)}}
        AutoModelForSequenceClassification.from_pretrained(
            model, dtype=torch.float32, num_labels=len(LABELS), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            **names).save_pretrained(start)
        for name in ("vocab.txt", "tokenizer_config.json", "tokenizer.json", "special_tokens_map.json"):
            if os.path.exists(os.path.join(model, name)):
                shutil.copy(os.path.join(model, name), start)
        for name, more in (("adamw", {"learning_rate": 5e-5}), ("sgd", {"optim": "sgd", "learning_rate": 0.05}),
                           ("adamw accumulation 3", {"learning_rate": 5e-5, "gradient_accumulation_steps": 3})):
            case = {"name": name, "arguments": base_arguments("bert", "pairs.csv", "single_label_classification", **more)}
            case["arguments"].update(model_name_or_path=start, max_steps=arguments.steps)
            output = one_run(name, start, plimsoll, folder, case)
            check_saved(output, plimsoll, case["arguments"]["max_seq_length"])


if __name__ == "__main__":
    sys.exit(main())
