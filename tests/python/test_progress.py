"""Tests the progress display in a notebook and on a terminal."""
import io
import sys
import types

import pytest

import plimsoll_train as pl
from conftest import settings


class ZMQInteractiveShell:
    """The progress display recognizes a notebook by this class name of IPython's shell."""


class Shell(ZMQInteractiveShell):
    """Colab's shell has another name, and is derived from that of Jupyter."""


@pytest.mark.parametrize("kind", [ZMQInteractiveShell, Shell])
def test_a_notebook_shows_a_bar_and_a_table(tmp_path, model, rows, validation_rows, monkeypatch, kind):
    pages = []

    class Handle:
        def update(self, page):
            pages.append(page)

    def display(page, display_id):
        assert display_id
        pages.append(page)
        return Handle()

    shown = types.ModuleType("IPython.display")
    shown.HTML, shown.display = str, display
    shell = types.ModuleType("IPython")
    shell.get_ipython, shell.display = kind, shown
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    pl.Trainer(model, settings(tmp_path / "out", eval_strategy="steps", eval_steps=3), train_dataset=rows, eval_dataset=validation_rows).train()
    assert "6/6 steps" in pages[-1] and "<progress value='6' max='6'" in pages[-1]
    assert "<th>loss</th>" in pages[-1] and "<th>eval_accuracy</th>" in pages[-1]
    # The losses of step 6, at which the model is also evaluated, are in one row.
    assert pages[-1].count("<td>6</td>") == 1
    count = len(pages)
    pl.Trainer(model, settings(tmp_path / "quiet", disable_tqdm=True), train_dataset=rows).train()
    assert len(pages) == count


def test_a_terminal_shows_a_line(tmp_path, model, rows, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    pl.Trainer(model, settings(tmp_path / "out"), train_dataset=rows).train()
    assert terminal.getvalue().split("\r\033[K")[-1].startswith("6/6 steps, epoch 0.86")
    other = io.StringIO()
    monkeypatch.setattr(sys, "stderr", other)
    pl.Trainer(model, settings(tmp_path / "other"), train_dataset=rows).train()
    assert other.getvalue() == ""
