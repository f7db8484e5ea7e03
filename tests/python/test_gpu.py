"""Tests of plimsoll_train.Trainer on an NVIDIA GPU that this process also uses through PyTorch."""
import os

import pytest

import plimsoll_train as pl
from conftest import ROOT, settings
from test_trainer import command, digest

# The Trainer of transformers divides each batch among all visible GPUs, which makes other batches than those of this test. PyTorch reads the
# variable when it looks for GPUs for the first time, which is below.
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")

# Plans are exact for the arena. The driver's own memory may be this much smaller than planned.
SLACK_SHARE, SLACK_BYTES = 0.01, 64 << 20


@pytest.fixture
def occupied():
    """Returns memory of the GPU that this process holds during a test."""
    return torch.ones(256 << 20, dtype=torch.uint8, device="cuda:0")


def on_gpu(output_dir, **more):
    return {**settings(output_dir, **more), "use_cpu": False, "device": "cuda:0"}


def check_memory(trainer):
    assert trainer.memory["predicted_total_bytes"] == trainer.plan.total_bytes
    # The few steps of this test need not contain the largest batch for which the arena was planned, so up to 1 % may be unused.
    assert 0.99 * trainer.plan.arena_bytes <= trainer.memory["arena_high_water_bytes"] <= trainer.plan.arena_bytes
    unused = trainer.plan.total_bytes - trainer.memory["measured_peak_bytes"]
    assert 0 <= unused <= max(SLACK_SHARE * trainer.plan.total_bytes, SLACK_BYTES), unused


def test_the_bits_and_the_memory_are_those_of_the_command_line(tmp_path, model, rows, occupied):
    trainer = pl.Trainer(model, on_gpu(tmp_path / "python"), train_dataset=rows)
    trainer.train()
    check_memory(trainer)
    command("train", "--model_name_or_path", model, "--train_file", os.path.join(ROOT, "tests/parity/data/single.tsv"), "--device", "cuda:0",
            "--output_dir", str(tmp_path / "cli"), "--num_threads", "1", "--max_seq_length", "32", "--per_device_train_batch_size", "4",
            "--max_steps", "6", "--logging_steps", "2", "--save_strategy", "no", "--learning_rate", "1e-3")
    assert digest(tmp_path / "python") == digest(tmp_path / "cli")
    assert occupied.sum().item() == 256 << 20


class Rows(torch.utils.data.Dataset):
    """A data set of token ids and labels that the Trainer of Plimsoll and that of transformers both accept."""

    def __init__(self, tokenizer, rows):
        names = ["bad", "good", "odd"]
        self.rows = [{**tokenizer(row["sentence"], truncation=True, max_length=32), "label": names.index(row["label"])} for row in rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def test_losses_are_those_of_transformers_on_the_gpu(tmp_path, model, rows, occupied):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    data = Rows(tokenizer, rows)
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path / "theirs"), per_device_train_batch_size=4, max_steps=6, logging_steps=1,
                                               save_strategy="no", learning_rate=1e-3, report_to=[], disable_tqdm=True,
                                               train_sampling_strategy="sequential")
    theirs = transformers.Trainer(model=transformers.AutoModelForSequenceClassification.from_pretrained(model), args=arguments,
                                  train_dataset=data, processing_class=tokenizer)
    theirs.train()
    ours = pl.Trainer(model, on_gpu(tmp_path / "ours", logging_steps=1, train_sampling_strategy="sequential"), train_dataset=data,
                      processing_class=tokenizer)
    ours.train()
    check_memory(ours)

    def values(trainer, name):
        return [entry[name] for entry in trainer.state.log_history if name in entry]

    # The bounds are those of test_transformers.py, which compares both Trainers on a CPU: both compute in fp32, but
    # add the terms of sums in another order.
    for name, bound in (("loss", 2e-4), ("grad_norm", 2e-3), ("learning_rate", 1e-6)):
        assert values(ours, name) == pytest.approx(values(theirs, name), rel=bound), name
