"""Tests plimsoll_train.Trainer with lists of rows. The results must equal those of the command line with files."""
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys

import pytest

import plimsoll_train as pl
from plimsoll_train._run import Run
from plimsoll_train._settings import without_token
from conftest import ROOT, settings


def digest(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def command(*words):
    return subprocess.run([pl.program_path(), *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()


def test_the_bits_are_those_of_the_command_line(tmp_path, model, rows):
    out = pl.Trainer(model, settings(tmp_path / "python"), train_dataset=rows).train()
    assert out.global_step == 6 and math.isfinite(out.training_loss)
    command("train", "--model_name_or_path", model, "--train_file", os.path.join(ROOT, "tests/parity/data/single.tsv"), "--use_cpu",
            "--output_dir", str(tmp_path / "cli"), "--num_threads", "1", "--max_seq_length", "32", "--per_device_train_batch_size", "4",
            "--max_steps", "6", "--logging_steps", "2", "--save_strategy", "no", "--learning_rate", "1e-3")
    assert digest(tmp_path / "python") == digest(tmp_path / "cli")


def test_the_plan_is_that_of_the_run(tmp_path, model, rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out"), train_dataset=rows)
    plan = trainer.plan
    assert plan.fits() and not os.path.exists(tmp_path / "out" / "model.safetensors")
    trainer.train()
    assert trainer.plan.total_bytes == plan.total_bytes
    assert trainer.memory["predicted_total_bytes"] == plan.total_bytes
    assert trainer.memory["arena_high_water_bytes"] == plan.arena_bytes
    history = trainer.state.log_history
    assert [entry["step"] for entry in history] == [2, 4, 6, 6]
    assert all({"loss", "grad_norm", "learning_rate", "epoch"} <= set(entry) for entry in history[:-1])
    assert "train_loss" in history[-1] and trainer.state.max_steps == trainer.state.global_step == 6


def test_evaluation_and_prediction(tmp_path, model, rows, validation_rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out"), train_dataset=rows, eval_dataset=validation_rows)
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert after["eval_loss"] != before["eval_loss"] and after["eval_samples"] == len(validation_rows)
    labelled = trainer.predict(validation_rows)
    assert labelled.metrics["test_loss"] == after["eval_loss"] and labelled.metrics["test_accuracy"] == after["eval_accuracy"]
    unlabelled = trainer.predict([{"sentence": row["sentence"]} for row in validation_rows])
    assert unlabelled.label_ids is None
    rows_of = lambda array: [[float(x) for x in row] for row in array]
    assert rows_of(labelled.predictions) == rows_of(unlabelled.predictions)
    names = json.load(open(tmp_path / "out" / "config.json"))["id2label"]
    assert [names[str(int(i))] for i in labelled.label_ids] == [row["label"] for row in validation_rows]
    # The same rows are scored by `plimsoll predict`, which prints six digits, and compared with Trainer's predictions.
    with open(tmp_path / "rows.jsonl", "w") as file:
        file.writelines(json.dumps({"sentence": row["sentence"]}) + "\n" for row in validation_rows)
    command("predict", "--model_name_or_path", str(tmp_path / "out"), "--test_file", str(tmp_path / "rows.jsonl"), "--scores", "logits",
            "--output_dir", str(tmp_path / "scores"), "--use_cpu", "--num_threads", "1", "--max_seq_length", "32")
    lines = (tmp_path / "scores" / "predict_results.txt").read_text().splitlines()[1:]
    printed = [[float(x) for x in line.split("\t")[-3:]] for line in lines]
    for one, other in zip(rows_of(unlabelled.predictions), printed):
        assert one == pytest.approx(other, rel=1e-5)
    trainer.save_model(tmp_path / "copy")
    assert digest(tmp_path / "copy") == digest(tmp_path / "out")


def accuracy(prediction):
    predictions, labels = prediction
    best = [max(range(len(row)), key=lambda i: row[i]) for row in predictions.tolist()] if hasattr(predictions, "tolist") else [
        max(range(len(row)), key=lambda i: row[i]) for row in predictions]
    return {"own_accuracy": sum(a == b for a, b in zip(best, labels)) / len(best), "constant": 0.5}


def test_own_metrics_are_computed_at_every_evaluation(tmp_path, model, rows, validation_rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out", eval_strategy="steps", eval_steps=2, save_strategy="steps", save_steps=2,
                                         metric_for_best_model="own_accuracy", load_best_model_at_end=True),
                         train_dataset=rows, eval_dataset=validation_rows, compute_metrics=accuracy)
    trainer.train()
    evaluations = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    assert [entry["step"] for entry in evaluations] == [2, 4, 6]
    assert all(entry["eval_own_accuracy"] == entry["eval_accuracy"] and entry["eval_constant"] == 0.5 for entry in evaluations)
    assert trainer.state.best_metric == max(entry["eval_own_accuracy"] for entry in evaluations)
    assert trainer.state.best_model_checkpoint
    assert not os.path.exists(tmp_path / "out" / "eval_logits.npy")
    assert trainer.evaluate()["eval_own_accuracy"] == trainer.state.best_metric
    assert trainer.predict(validation_rows).metrics["test_constant"] == 0.5


def test_a_metric_that_is_not_a_number_does_not_end_the_run(tmp_path, model, rows, validation_rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out", eval_strategy="steps", eval_steps=2, max_steps=4), train_dataset=rows,
                         eval_dataset=validation_rows, compute_metrics=lambda _: {"correlation": float("nan")})
    trainer.train()
    values = [entry["eval_correlation"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert len(values) >= 2 and all(value is None or value != value for value in values)


def test_the_token_is_not_on_the_command_line():
    words, environment = without_token(["train", "--token", "hf_x", "--seed", "1"])
    assert words == ["train", "--seed", "1"] and environment["HF_TOKEN"] == "hf_x"
    assert without_token(["plan"])[0] == ["plan"]


def test_an_exception_of_compute_metrics_is_raised(tmp_path, model, rows, validation_rows):
    def fails(_):
        raise ZeroDivisionError("mine")

    trainer = pl.Trainer(model, settings(tmp_path / "out", eval_strategy="steps", eval_steps=2), train_dataset=rows,
                         eval_dataset=validation_rows, compute_metrics=fails)
    with pytest.raises(ZeroDivisionError, match="mine"):
        trainer.train()
    unnamed = pl.Trainer(model, settings(tmp_path / "other", eval_strategy="steps", eval_steps=2, metric_for_best_model="f2",
                                         ), train_dataset=rows, eval_dataset=validation_rows, compute_metrics=accuracy)
    with pytest.raises(pl.UsageError, match="f2"):
        unnamed.train()


def test_a_language_model_takes_no_own_metrics(tmp_path, rows):
    model = shutil.copytree(os.path.join(ROOT, "tests", "parity", "models", "gpt2_lm"), tmp_path / "model")
    texts = [{"text": row["sentence"] * 3} for row in rows]
    given = settings(tmp_path / "out", problem_type="causal_lm", block_size=32, eval_strategy="steps", eval_steps=3, max_seq_length=None)
    trainer = pl.Trainer(model, given, train_dataset=texts, eval_dataset=texts[:5])
    trainer.train()
    assert trainer.evaluate()["eval_perplexity"] == pytest.approx(math.exp(trainer.evaluate()["eval_loss"]))
    own = pl.Trainer(model, {**given, "output_dir": str(tmp_path / "own")}, train_dataset=texts, eval_dataset=texts[:5],
                     compute_metrics=accuracy)
    for run in (own.train, own.evaluate):
        with pytest.raises(pl.UsageError, match="computes no logits"):
            run()


class Recorder(pl.TrainerCallback):
    def __init__(self, stop_at=None):
        self.calls = []
        self.stop_at = stop_at

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda args, state, control, **more: self.record(name, state, control)
        return super().__getattribute__(name)

    def record(self, name, state, control):
        self.calls.append((name, state.global_step))
        if name == "on_step_end" and state.global_step == self.stop_at:
            control.should_training_stop = True
            control.should_save = True


def test_callbacks_are_called_and_stop_the_run_after_the_same_step(tmp_path, model, rows):
    recorder = Recorder(stop_at=3)
    trainer = pl.Trainer(model, settings(tmp_path / "out"), train_dataset=rows, callbacks=[recorder])
    assert trainer.train().global_step == 3
    names = [name for name, _ in recorder.calls]
    assert names[:5] == ["on_init_end", "on_train_begin", "on_epoch_begin", "on_step_begin", "on_step_end"]
    assert [step for name, step in recorder.calls if name == "on_step_end"] == [1, 2, 3]
    assert "on_save" in names and "on_log" in names and names[-1] == "on_train_end"
    assert os.path.isdir(tmp_path / "out" / "checkpoint-3")
    whole = Recorder()
    pl.Trainer(model, settings(tmp_path / "whole", max_steps=-1, num_train_epochs=2), train_dataset=rows, callbacks=[whole]).train()
    assert [step for name, step in whole.calls if name == "on_epoch_end"] == [7, 14]


def test_every_exit_code_has_its_exception(tmp_path, model, rows):
    def fails(kind, **more):
        with pytest.raises(kind) as caught:
            pl.Trainer(model, settings(tmp_path / kind.__name__, **more.pop("settings", {})), **{"train_dataset": rows, **more}).train()
        assert caught.value.exit_code == kind.exit_code
        return caught.value

    error = fails(pl.WillNotFit, settings={"memory_limit": "1MiB"})
    assert error.plan.total_bytes > 2**20 and "will not fit" in error.message and isinstance(error, MemoryError)
    assert "label" in fails(pl.BadData, train_dataset=[{"sentence": "a", "label": "x"}, {"sentence": "b", "label": None}]).message
    assert "bf17" in fails(pl.UsageError, settings={"matmul_precision": "bf17"}).message
    assert fails(pl.NotFinite, settings={"learning_rate": 1e30, "max_grad_norm": 0.0, "max_steps": 50}).plan is not None
    with pytest.raises(pl.UsageError, match="DataCollatorForSeq2Seq"):
        pl.Trainer(model, data_collator=type("DataCollatorForSeq2Seq", (), {})())


def test_an_interrupt_saves_a_checkpoint_and_the_run_resumes_with_the_same_bits(tmp_path, model, rows):
    class Interrupt(pl.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            if state.global_step == 3:
                os.kill(os.getpid(), signal.SIGINT)

    given = settings(tmp_path / "out", hidden_dropout_prob=None, max_steps=40)
    given.pop("hidden_dropout_prob")
    trainer = pl.Trainer(model, given, train_dataset=rows, callbacks=[Interrupt])
    with pytest.raises(KeyboardInterrupt) as caught:
        trainer.train()
    assert isinstance(caught.value, pl.Interrupted) and caught.value.plan is not None
    assert os.path.isdir(caught.value.checkpoint)
    resumed = pl.Trainer(model, given, train_dataset=rows)
    assert resumed.train(resume_from_checkpoint=True).global_step == 40
    pl.Trainer(model, settings(tmp_path / "whole", max_steps=40), train_dataset=rows).train()
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


def test_a_parent_that_ends_lets_the_run_save(tmp_path, model, rows):
    script = tmp_path / "script.py"
    script.write_text(f"""
import sys
sys.path[:0] = [{os.path.join(ROOT, 'python')!r}]
import plimsoll_train as pl
from plimsoll_train._settings import without_token
class Leave(pl.TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        if state.global_step == 2:
            sys.exit(5)
pl.Trainer({model!r}, {settings(tmp_path / 'out', max_steps=100000)!r}, train_dataset={rows!r}, callbacks=[Leave]).train()
""")
    done = subprocess.run([sys.executable, str(script)], timeout=60)
    assert done.returncode == 5
    assert any(name.startswith("checkpoint-") for name in os.listdir(tmp_path / "out"))


def test_a_parent_that_ends_in_compute_metrics_lets_the_run_save(tmp_path, model, rows, validation_rows):
    """The metric that would choose the best model is then missing, and the resumed run repeats the evaluation."""
    given = settings(tmp_path / "out", max_steps=8, eval_strategy="steps", eval_steps=2, metric_for_best_model="own", logging_steps=1)
    calls = []

    def leave(prediction):
        calls.append(len(calls))
        if len(calls) == 2:
            sys.exit(5)
        return {"own": float(len(calls))}

    trainer = pl.Trainer(model, given, train_dataset=rows, eval_dataset=validation_rows, compute_metrics=leave)
    with pytest.raises(SystemExit):
        trainer.train()
    assert os.listdir(tmp_path / "out").count("checkpoint-4") == 1
    resumed = pl.Trainer(model, given, train_dataset=rows, eval_dataset=validation_rows, compute_metrics=leave)
    resumed.train(resume_from_checkpoint=True)
    with open(tmp_path / "out" / "log.jsonl", encoding="utf-8") as file:
        found = {record["step"]: record["eval_own"] for record in map(json.loads, file) if "eval_own" in record}
    assert found == {2: 1.0, 4: 3.0, 6: 4.0, 8: 5.0}


FAKE = """#!{python}
import json, os, signal, sys, time
code, descriptor = int(sys.argv[1]), int(sys.argv[sys.argv.index("--event_fd") + 1])
def send(**event):
    os.write(descriptor, json.dumps(event).encode() + b"\\n")
def stop(*_):
    send(event="save", path="out/checkpoint-1")
    send(event="end", exit_code=code, message="the loss is nan" if code == 5 else "")
    os._exit(code)
signal.signal(signal.SIGINT, stop)
send(event="begin", max_steps=1)
time.sleep(30)
"""


def test_an_interrupt_keeps_the_exit_code_of_the_program(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PLIMSOLL_PROGRAM", str(program))

    def interrupt(event):
        if event["event"] == "begin":
            raise KeyboardInterrupt

    def fail(event):
        raise LookupError("a fault of a callback")

    for code, cause, words in ((6, None, "the run was interrupted: it saved out/checkpoint-1"),
                               (0, None, "the run was complete before it could be interrupted: it saved out/checkpoint-1"),
                               (5, pl.NotFinite, "the run was interrupted, and ended with exit code 5: the loss is nan; it saved"),
                               (7, pl.DeviceError, "the run was interrupted, and ended with exit code 7: ")):
        with pytest.raises(pl.Interrupted) as caught:
            Run([str(code)], interrupt).run()
        assert caught.value.exit_code == code and str(caught.value).startswith(words) and caught.value.checkpoint == "out/checkpoint-1"
        assert isinstance(caught.value.__cause__, cause) if cause else caught.value.__cause__ is None
        with pytest.raises(LookupError):
            Run([str(code)], fail).run()


def test_rows_of_ids_keep_their_length(tmp_path):
    """Trainer truncates no rows that are tokenized already; the program would truncate them to 128 tokens by default."""
    folder = shutil.copytree(os.path.join(ROOT, "tests", "parity", "models", "llama"), tmp_path / "llama")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 512}))

    def rows_of(length):
        return [{"input_ids": [5 + (k * (i + 3)) % 20 for k in range(length)], "label": ("bad", "good", "odd")[i % 3]} for i in range(6)]

    given = {name: value for name, value in settings(tmp_path / "out", max_steps=2).items() if name != "max_seq_length"}
    trainer = pl.Trainer(str(folder), {**given, "include_num_input_tokens_seen": "all"}, train_dataset=rows_of(200), eval_dataset=rows_of(300))
    assert trainer.train().metrics["num_input_tokens_seen"] == 2 * 200 * 4 - 2 * 200
    assert not [text for text in trainer.plan.warnings if "cut off" in text]

    def predictions(rows):
        return [[float(x) for x in row] for row in trainer.predict(rows).predictions]

    longer, shorter = (predictions([{"input_ids": row["input_ids"][:length]} for row in rows_of(300)]) for length in (300, 128))
    assert longer != shorter and predictions(rows_of(300)) == longer
    cut = pl.Trainer(str(folder), {**given, "output_dir": str(tmp_path / "cut"), "max_seq_length": 128}, train_dataset=rows_of(200))
    assert [text for text in cut.plan.warnings if "cut off" in text]


def test_warnings_and_errors_name_the_data_set(tmp_path, model, rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out", max_seq_length=16), train_dataset=rows, eval_dataset=list(rows))
    with pytest.warns(pl.PlimsollWarning, match=r"^train_dataset: \d+ of 26 texts were longer than --max_seq_length 16") as shown:
        trainer.train()
    assert {os.path.basename(one.filename) for one in shown} == {"test_trainer.py"}
    assert trainer.plan.warnings and not [text for text in trainer.plan.warnings if "jsonl" in text]
    assert "warning: train_dataset: " in trainer.plan._repr_html_()
    with pytest.warns(pl.PlimsollWarning, match="^eval_dataset: "):
        trainer.evaluate()
    with pytest.raises(pl.BadData, match="^train_dataset, row 2: this row has no label"):
        pl.Trainer(model, settings(tmp_path / "bad"), train_dataset=[rows[0], rows[1], {"sentence": "x"}]).train()


def test_phases_are_in_the_order_of_a_run():
    assert list(pl.plan("bert-base-uncased", device="l4").phases) == ["load", "resume", "train", "eval", "save"]


def test_the_state_and_the_arguments_have_what_callbacks_read(tmp_path, model, rows, validation_rows):
    class Ask(pl.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_evaluate = state.global_step == 2

    predicted = []
    asking = Ask()
    asking.on_predict = lambda args, state, control, metrics, **more: predicted.append(metrics)
    trainer = pl.Trainer(model, settings(tmp_path / "out", eval_steps=0.5, token="hf_x"), train_dataset=rows, eval_dataset=validation_rows,
                         callbacks=[asking])
    with pytest.warns(pl.PlimsollWarning, match="should_evaluate"):
        trainer.train()
    state = trainer.state
    assert (state.logging_steps, state.eval_steps, state.save_steps, state.max_steps) == (2, 3, 500, 6)
    assert "hf_x" not in trainer.args.to_json_string() and json.loads(trainer.args.to_json_string())["learning_rate"] == 1e-3
    metrics = trainer.predict(validation_rows).metrics
    assert predicted == [metrics]


def test_callbacks_with_several_processes_are_refused(tmp_path, model, rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out", nproc_per_node=2), train_dataset=rows, callbacks=[pl.TrainerCallback()])
    with pytest.raises(pl.UsageError, match="^callbacks, and compute_metrics"):
        trainer.train()
