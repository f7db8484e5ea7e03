#!/usr/bin/env python3
"""Makes tests/parity/adapters for adapters_test.cc: the results of training PEFT's adapters, and models with frozen parameters, with Trainer.

    python3 tests/parity/make_adapter_fixtures.py    # needs torch 2.15, transformers 5.23, peft 0.21, bitsandbytes 0.50
    python3 tests/parity/make_adapter_fixtures.py pissa olora    # makes only these cases of LORA and keeps all others

Trainer runs every case on a CPU, without dropout, with the rows in the order of the file. The fp64 run is the reference. The distance
of the fp32 run from it is the unit of the limits in the test. The initial values of the adapters are stored, so that both engines start
with the same numbers. The fixtures also contain an adapter that PEFT saved after 20 steps in fp32, and its logits for the first 8 rows.
"""
import fnmatch
import json
import os
import shutil
import sys

import numpy as np
import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model, get_peft_model_state_dict
from safetensors.numpy import load_file, save_file
from transformers import AutoTokenizer, DataCollatorWithPadding

from reference import Rows, load_model, run_reference

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "adapters")
SETTINGS = {"model_name_or_path": "models/bert", "train_file": "data/single.tsv", "problem_type": "single_label_classification",
            "max_seq_length": 48, "per_device_train_batch_size": 4, "max_steps": 20, "logging_steps": 1,
            "train_sampling_strategy": "sequential", "learning_rate": 5e-3}
LORA = {"query_value": (dict(r=4, lora_alpha=8), {}),
        "all_linear": (dict(r=3, lora_alpha=5, target_modules="all-linear", use_rslora=True),
                       {"optim": "sgd", "learning_rate": 0.05}),
        "pooler_saved": (dict(r=2, lora_alpha=2, target_modules=["intermediate.dense", "key"], modules_to_save=["pooler"]),
                         {"weight_decay": 0.1}),
        # These two initialisations change the base model. PEFT computes the changed base model again, in fp32, whenever it reads the
        # adapter.
        "pissa": (dict(r=3, lora_alpha=4, init_lora_weights="pissa"), {}),
        "olora": (dict(r=3, lora_alpha=4, init_lora_weights="olora", target_modules=["query", "output.dense"]), {})}
# Adapters on a base model in 4 bits: bitsandbytes' quantization type, and whether the scales are quantized too.
QUANTIZED = {"nf4_double": ("nf4", True), "fp4": ("fp4", False)}
FROZEN = {"half": (["bert.embeddings.*", "bert.encoder.layer.0.*"], {"learning_rate": 1e-3}),
          "biases_alone": (["*.weight"], {"learning_rate": 1e-3})}


def in_four_bits(model, kind, double):
    """Replaces the weights of all linear modules except the classifier by their values after quantization to 4 bits. The codes are those
    of bitsandbytes; the decoded values and scales are computed here by its formulas. kernels/quantization states why."""
    import bitsandbytes.functional as F
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or name == "classifier":
            continue
        w = module.weight.data.to(torch.float32)
        codes, state = F.quantize_4bit(w, quant_type=kind)
        absmax = state.absmax
        if double:
            twice = F.quantize_4bit(w, quant_type=kind, compress_statistics=True)[1]
            numbers = twice.state2.code
            second = twice.state2.absmax.repeat_interleave(256)[: len(absmax)]
            scaled = (absmax - twice.offset) * (1 / second)
            absmax = numbers[torch.bucketize(scaled, (numbers[:-1] + numbers[1:]) / 2)] * second + twice.offset
        pairs = codes.reshape(-1)
        index = torch.stack([pairs >> 4, pairs & 15], 1).reshape(-1).long()
        numbers = (state.code[index].reshape(-1, 64) * absmax[:, None]).reshape(w.shape)
        module.weight.data = numbers.to(module.weight.dtype)
    return model


def adapter_of(model):
    return {name: value.detach().to(torch.float64).numpy().copy() for name, value in get_peft_model_state_dict(model).items()}


def difference(a, b, start):
    change = sum(float(((b[n] - start[n]) ** 2).sum()) for n in b)
    return (sum(float(((a[n] - b[n]) ** 2).sum()) for n in b) / change) ** 0.5, change ** 0.5


def run(settings, dtype, adapt, weights):
    kept = []

    def remember(model):
        kept.append(adapt(model).to(dtype))
        return kept[0]

    recorder, _ = run_reference({"arguments": settings}, dtype, adapt=remember)
    return [step["loss"] for step in recorder.steps], [step["grad_norm"] for step in recorder.steps], weights(kept[0]), kept[0]


def case_of(settings, adapt, weights, start, prefix, tensors):
    loss64, norm64, exact, _ = run(settings, torch.float64, adapt, weights)
    loss32, norm32, rounded, model = run(settings, torch.float32, adapt, weights)
    error, change = difference(rounded, exact, start)
    for name, value in exact.items():
        tensors[f"{prefix}/{name}"] = value
    worst = lambda a, b: max(abs(x - y) / abs(y) for x, y in zip(a, b))
    return {"arguments": settings, "loss": loss64, "grad_norm": norm64, "fp32_loss_error": worst(loss32, loss64),
            "fp32_grad_norm_error": worst(norm32, norm64), "fp32_weight_error": error, "update_norm": change}, model


def first_logits(model):
    tokenizer = AutoTokenizer.from_pretrained("models/bert")
    rows = Rows("data/single.tsv", tokenizer, "single_label_classification", 48)
    batch = DataCollatorWithPadding(tokenizer)([rows[i] for i in range(8)])
    with torch.no_grad():
        return model.eval()(**batch).logits.to(torch.float64).numpy()


def save(model, folder):
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    config = json.load(open(path))
    config["base_model_name_or_path"] = "models/bert"
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()
    with open(path, "w") as f:
        f.write(json.dumps(config, indent=2, sort_keys=True) + "\n")


def main():
    os.chdir(HERE)
    problem = SETTINGS["problem_type"]
    only = sys.argv[1:]
    if only:
        cases = json.load(open(os.path.join(OUT, "cases.json")))
        tensors = load_file(os.path.join(OUT, "expected.safetensors"))
    else:
        shutil.rmtree(OUT, ignore_errors=True)
        os.makedirs(OUT)
        cases, tensors = {"lora": {}, "quantized": {}, "frozen": {}}, {}
    for name, (lora, more) in LORA.items():
        if only and name not in only:
            continue
        torch.manual_seed(11)
        model = get_peft_model(load_model("models/bert", problem, torch.float32), LoraConfig(task_type=TaskType.SEQ_CLS, **lora))
        start = os.path.join(OUT, name)
        save(model, start)
        adapt = lambda base: PeftModel.from_pretrained(base.float(), start, is_trainable=True)
        case, trained = case_of(dict(SETTINGS, **more), adapt, adapter_of, adapter_of(model), name, tensors)
        cases["lora"][name] = case
        if name == "query_value":
            save(trained, os.path.join(OUT, "trained"))
            exact = load_model("models/bert", problem, torch.float64)
            torch.set_default_dtype(torch.float64)
            logits = first_logits(PeftModel.from_pretrained(exact, os.path.join(OUT, "trained")).to(torch.float64))
            torch.set_default_dtype(torch.float32)
            rounded = first_logits(PeftModel.from_pretrained(load_model("models/bert", problem, torch.float32), os.path.join(OUT, "trained")))
            cases["trained"] = {"logits": logits.tolist(), "fp32_logits_error": float(np.linalg.norm(rounded - logits) / np.linalg.norm(logits))}
    for name, (kind, double) in ({} if only else QUANTIZED).items():
        start = os.path.join(OUT, "query_value")
        adapt = lambda base: PeftModel.from_pretrained(in_four_bits(base, kind, double), start, is_trainable=True)
        first = adapter_of(PeftModel.from_pretrained(load_model("models/bert", problem, torch.float32), start))
        cases["quantized"][name] = dict(case_of(SETTINGS, adapt, adapter_of, first, name, tensors)[0], kind=kind, double=double)
    for name, (patterns, more) in ({} if only else FROZEN).items():
        def freeze(model):
            for parameter, value in model.named_parameters():
                value.requires_grad = not any(fnmatch.fnmatchcase(parameter, pattern) for pattern in patterns)
            return model

        def shown(model):
            return {n: p.detach().to(torch.float64).numpy().copy() for n, p in model.named_parameters()
                    if p.requires_grad and any(part in n for part in ("classifier", "layer.1.output", "query.bias"))}

        start = shown(freeze(load_model("models/bert", problem, torch.float32)))
        case, _ = case_of(dict(SETTINGS, **more), freeze, shown, start, name, tensors)
        case["freeze"] = patterns
        cases["frozen"][name] = case
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, os.path.join(OUT, "expected.safetensors"))
    with open(os.path.join(OUT, "cases.json"), "w") as f:
        f.write(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
