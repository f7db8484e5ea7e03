"""Tests plan() and fit()."""
import importlib.util

import pytest

import plimsoll_train as pl
from conftest import settings


def test_a_plan_has_fields():
    plan = pl.plan("bert-base-uncased", device="l4", per_device_train_batch_size=8, max_seq_length=128, bf16=True)
    assert plan.total_bytes == plan["total_bytes"] > plan.arena_bytes > 10**9
    assert sum(plan.purposes.values()) == plan.total_bytes
    assert set(plan.phases) >= {"load", "train", "save"}
    assert plan.phases["train"]["total_bytes"] == plan.total_bytes
    assert plan.num_parameters == plan.num_trainable_parameters == 109483778
    assert plan.peak["module"] and plan.step_ms > 0 and plan.samples_per_second > 0
    assert plan.fits() and plan.fits("16GiB") and not plan.fits("1GiB") and not plan.fits(1000)
    assert "bert-base-uncased" in repr(plan)
    page = plan._repr_html_()
    assert "gradients" in page and "http" not in page


def test_a_plan_that_does_not_fit_is_returned(model):
    plan = pl.plan(model, device="cpu", num_threads=1, max_seq_length=32, memory_limit="1MiB")
    assert not plan.fits()
    assert plan.refusal.startswith("will not fit")


def test_changes_that_would_fit_are_named(tmp_path, model, rows):
    given = settings(tmp_path / "out", max_seq_length=64, per_device_train_batch_size=64)
    needed = pl.Trainer(model, given, train_dataset=rows * 20).plan.total_bytes
    trainer = pl.Trainer(model, {**given, "memory_limit": needed - 4096}, train_dataset=rows * 20)
    with pytest.raises(pl.WillNotFit) as caught:
        trainer.train()
    assert caught.value.cheapest == caught.value.fitting[0]
    change = dict(zip(caught.value.cheapest[::2], caught.value.cheapest[1::2])) if len(caught.value.cheapest) % 2 == 0 else {
        caught.value.cheapest[0]: "True"}
    changed = {**given, "memory_limit": needed - 4096, **{name.lstrip("-"): value for name, value in change.items()}}
    assert pl.Trainer(model, changed, train_dataset=rows * 20).plan.fits()
    assert not trainer.plan.fits() and trainer.plan.refusal == caught.value.message


def test_sizes_that_are_no_sizes_are_refused():
    plan = pl.plan("bert-base-uncased", device="cpu", num_threads=1)
    with pytest.raises(pl.UsageError, match="16 apples"):
        plan.fits("16 apples")


def test_an_error_of_the_program_is_its_exception():
    with pytest.raises(pl.UsageError, match="learning_rate"):
        pl.plan("bert-base-uncased", learning_rate="fast")
    with pytest.raises(pl.UsageError, match="did you mean learning_rate"):
        pl.TrainingArguments(lerning_rate=1)


def test_tables():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    plan = pl.plan("bert-base-uncased", device="l4")
    frame = plan.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc["train", "total"] == plan.total_bytes


def test_fit_finds_settings_that_fit(model):
    settings = {"config_name": model, "device": "cpu", "num_threads": 1, "max_seq_length": 32, "effective_batch_size": 16}
    found = pl.fit(memory="64MiB", **settings)
    assert found.best["fits"] and found.best["total_bytes"] <= 64 * 2**20
    assert "<code>" in found._repr_html_() and "MiB" in repr(found)
    if importlib.util.find_spec("pandas"):
        assert len(found.to_frame()) == len(found)
    with pytest.raises(pl.WillNotFit, match="nothing fits: 1 MiB allowed"):
        pl.fit(memory="1MiB", **settings)


def test_arguments_read_as_attributes(tmp_path):
    args = pl.TrainingArguments(tmp_path / "out", bf16=True)
    assert args.output_dir == str(tmp_path / "out") and args.bf16 is True
    assert args.learning_rate == 5e-5 and args.eval_strategy == "no"
    args.learning_rate = 1e-4
    assert args.to_dict()["learning_rate"] == 1e-4
    with pytest.raises(AttributeError):
        args.lerning_rate


def test_a_kernel_of_any_stage_of_a_pipeline_can_be_forced(model):
    given = {"device": "cpu", "num_threads": 1, "max_seq_length": 32, "pp_size": 2, "nproc_per_node": 2}
    # Only the first stage looks up embeddings, and only the last one computes the loss.
    for kernel in ("embedding_sum_fwd_ref", "softmax_cross_entropy_fwd_ref"):
        assert pl.plan(model, **given, kernels=kernel)["by_phase"]
    for kernel in ("sgd_cpu", "embedding_sum_fwd_ref,sgd_cpu"):
        with pytest.raises(pl.UsageError, match="--kernels sgd_cpu: no op of this run computes"):
            pl.plan(model, **given, kernels=kernel)
