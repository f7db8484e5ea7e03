#!/usr/bin/env python3
"""Runs one case of bench/cpu/compare.py with Hugging Face's Trainer on this CPU, and prints one JSON line.

usage: peer.py CASE THREADS   (needs torch and transformers; cases are in compare.py)
The model has random weights and its default dropout; nothing is saved or logged. samples/s is the value that Trainer reports.
"""
import json
import os
import resource
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
from transformers import (BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, Trainer,  # noqa: E402
                          TrainingArguments)

from compare import CASES, devices, lengths_of  # noqa: E402

MODELS = {
    "bert-base-uncased": dict(),
    "all-MiniLM-L6-v2": dict(hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12),
}


class Rows(torch.utils.data.Dataset):
    def __init__(self, case):
        generator = torch.Generator().manual_seed(0)
        self.rows = [dict(input_ids=torch.randint(1000, 30000, (n,), generator=generator), labels=i % 4)
                     for i, n in enumerate(lengths_of(case))]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def stack(rows):
    """Makes a batch for a language model from sequences of equal length. The labels are the token ids themselves."""
    ids = torch.stack([r["input_ids"] for r in rows])
    return dict(input_ids=ids, labels=ids.clone())


def pad(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, :len(row["input_ids"])] = row["input_ids"]
        mask[i, :len(row["input_ids"])] = 1
    return dict(input_ids=ids, attention_mask=mask, labels=torch.tensor([r["labels"] for r in rows]))


def main():
    case = CASES[sys.argv[1]]
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(0)
    if case["model"] == "gpt2":
        model = GPT2LMHeadModel(GPT2Config())
    else:
        model = BertForSequenceClassification(BertConfig(num_labels=4, **MODELS[case["model"]]))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=case["batch"], max_steps=case["steps"],
                                      bf16=case.get("bf16", False), report_to=[], logging_strategy="no", save_strategy="no",
                                      disable_tqdm=True)
        trainer = Trainer(model=model, args=arguments, train_dataset=Rows(case),
                          data_collator=stack if "classes" in case else pad)
        result = trainer.train()
    print(json.dumps(dict(device=devices.trainer_device(trainer), precision=devices.trainer_precision(trainer),
                          samples_per_s=result.metrics["train_samples_per_second"],
                          loss=result.metrics["train_loss"],
                          peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)))


if __name__ == "__main__":
    main()
