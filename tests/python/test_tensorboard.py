"""Tests TensorBoard event files: the package tensorboard reads the file of a run, and the values must be those of log.jsonl."""
import json
import os
import struct

import pytest

from conftest import settings
import plimsoll_train as pl

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed")


def fp32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def test_tensorboard_reads_every_value_of_the_log(tmp_path, model, rows, validation_rows):
    given = settings(tmp_path / "out", report_to="tensorboard", logging_dir=str(tmp_path / "events"), eval_strategy="steps", eval_steps=3)
    pl.Trainer(model, given, train_dataset=rows, eval_dataset=validation_rows).train()
    names = os.listdir(tmp_path / "events")
    assert len(names) == 1 and names[0].startswith("events.out.tfevents.")
    read = event_accumulator.EventAccumulator(str(tmp_path / "events"), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    found = {(tag, event.step): event.value for tag in read.Tags()["scalars"] for event in read.Scalars(tag)}
    with open(tmp_path / "out" / "log.jsonl", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    expected = {}
    for record in records:
        for name, value in record.items():
            if isinstance(value, (int, float)) and name not in ("step", "epoch"):
                tag = "eval/" + name[len("eval_"):] if name.startswith("eval_") else "train/" + name
                expected[tag, record["step"]] = fp32(value)
        expected["train/epoch", record["step"]] = fp32(record["epoch"])
    assert {tag for tag, _ in expected} >= {"train/loss", "train/grad_norm", "train/learning_rate", "train/epoch", "eval/loss", "eval/accuracy"}
    assert found == expected
    texts = {tag: read.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in read.Tags()["tensors"]}
    assert "learning_rate" in texts["args/text_summary"] and "bert" in texts["model_config/text_summary"]
