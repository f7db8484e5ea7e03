"""Fixtures for the tests of the Python package: the tiny model and the rows that they train on."""
import csv
import os
import shutil
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.setdefault("PLIMSOLL_PROGRAM", os.path.join(ROOT, "build", "plimsoll"))
# Models must be read from local folders, so that no test uses the network.
os.environ["HF_HUB_OFFLINE"] = "1"


def pytest_configure(config):
    """Hides the warnings of runs, such as those about truncated texts, in tests that do not check them."""
    config.addinivalue_line("filterwarnings", "ignore::plimsoll_train.PlimsollWarning")


@pytest.fixture
def model(tmp_path):
    """Returns a copy of a BERT of two layers with the labels bad, good and odd, and without dropout."""
    return str(shutil.copytree(os.path.join(ROOT, "tests", "parity", "models", "bert"), tmp_path / "model"))


def read_rows(name):
    with open(os.path.join(ROOT, "tests", "parity", "data", name), encoding="utf-8", newline="") as file:
        return [dict(row) for row in csv.DictReader(file, delimiter="\t")]


@pytest.fixture
def rows():
    return read_rows("single.tsv")


@pytest.fixture
def validation_rows():
    return read_rows("single_validation.tsv")


def settings(output_dir, **more):
    """Returns arguments of a run that takes a few milliseconds on a CPU."""
    return {"output_dir": str(output_dir), "use_cpu": True, "num_threads": 1, "max_seq_length": 32,
            "per_device_train_batch_size": 4, "max_steps": 6, "logging_steps": 2, "save_strategy": "no", "learning_rate": 1e-3, **more}
