"""Compares plimsoll_train.Trainer with the Trainer of transformers on the same data set, and tests the objects of transformers that it
accepts."""
import pytest

import plimsoll_train as pl
from conftest import settings

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")


NAMES = ["bad", "good", "odd"]


def dataset_of(rows):
    features = datasets.Features({"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=NAMES)})
    return datasets.Dataset.from_dict({"sentence": [row["sentence"] for row in rows],
                                       "label": [NAMES.index(row["label"]) for row in rows]}, features=features)


def arguments(output_dir, **more):
    return transformers.TrainingArguments(output_dir=str(output_dir), use_cpu=True, per_device_train_batch_size=4, max_steps=6,
                                          logging_steps=1, save_strategy="no", learning_rate=1e-3, eval_strategy="steps", eval_steps=3,
                                          report_to=[], disable_tqdm=True, train_sampling_strategy="sequential", **more)


def accuracy(prediction):
    predictions, labels = prediction
    return {"own_accuracy": (predictions.argmax(-1) == labels).mean()}


def test_losses_and_metrics_are_those_of_transformers(tmp_path, model, rows, validation_rows):
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    tokenize = lambda batch: tokenizer(batch["sentence"], truncation=True, max_length=64)
    train, validation = (dataset_of(part).map(tokenize, batched=True) for part in (rows, validation_rows))
    theirs = transformers.Trainer(model=transformers.AutoModelForSequenceClassification.from_pretrained(model),
                                  args=arguments(tmp_path / "theirs"), train_dataset=train, eval_dataset=validation,
                                  processing_class=tokenizer, compute_metrics=accuracy)
    theirs.train()
    # The reference predictions are made before new TrainingArguments are created, because those reset the state of Accelerate, which
    # transformers' Trainer needs.
    other = theirs.predict(validation)
    own_model = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    ours = pl.Trainer(model=own_model, args=arguments(tmp_path / "ours"), train_dataset=train, eval_dataset=validation,
                      processing_class=tokenizer, compute_metrics=accuracy)
    ours.train()

    def values(trainer, name):
        return [entry[name] for entry in trainer.state.log_history if name in entry]

    for name, bound in (("loss", 2e-4), ("grad_norm", 2e-3), ("learning_rate", 1e-6), ("eval_loss", 2e-4), ("eval_own_accuracy", 1e-6)):
        assert values(ours, name) == pytest.approx(values(theirs, name), rel=bound), name
    # After training, the model object must have the trained weights. Key biases are not compared: their exact gradient is zero, and AdamW
    # makes steps of full size from its rounding errors.
    for (name, mine), weight in zip(own_model.state_dict().items(), theirs.model.state_dict().values()):
        assert name.endswith("key.bias") or torch.allclose(mine, weight, atol=2e-4), name
    one = ours.predict(validation)
    assert abs(one.predictions - other.predictions).max() < 2e-3
    assert (one.label_ids == other.label_ids).all()
    assert set(other.metrics) - set(one.metrics) <= {"test_model_preparation_time"}
    # The measured memory must stay within the plan, although this process has loaded torch.
    assert ours.memory["predicted_total_bytes"] == ours.plan.total_bytes
    assert ours.memory["arena_high_water_bytes"] == ours.plan.arena_bytes
    assert ours.memory["measured_peak_bytes"] <= ours.plan.total_bytes


def test_a_model_object_has_the_tokenizer_of_its_folder(tmp_path, model, rows):
    own = transformers.AutoModelForSequenceClassification.from_pretrained(model)
    by_object = pl.Trainer(own, settings(tmp_path / "object"), train_dataset=rows).train()
    by_folder = pl.Trainer(model, settings(tmp_path / "folder"), train_dataset=rows).train()
    assert by_object.training_loss == by_folder.training_loss
    assert (tmp_path / "object" / "vocab.txt").read_bytes() == (tmp_path / "folder" / "vocab.txt").read_bytes()


def test_callbacks_of_transformers(tmp_path, model, rows, validation_rows):
    class Halt(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = state.global_step == 2
            return control

    out = pl.Trainer(model, settings(tmp_path / "out"), train_dataset=dataset_of(rows), callbacks=[Halt()]).train()
    assert out.global_step == 2
    stopping = transformers.EarlyStoppingCallback(early_stopping_patience=1, early_stopping_threshold=10.0)
    args = pl.TrainingArguments(**settings(tmp_path / "early", eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1,
                                           load_best_model_at_end=True, metric_for_best_model="loss", max_steps=30))
    out = pl.Trainer(model, args, train_dataset=dataset_of(rows), eval_dataset=dataset_of(validation_rows), callbacks=[stopping]).train()
    assert out.global_step == 2
    # These callbacks read fields of the state and of the arguments that no other test reads.
    given = pl.TrainingArguments(**settings(tmp_path / "flow"))
    flow = [transformers.trainer_callback.DefaultFlowCallback(), transformers.PrinterCallback(), transformers.ProgressCallback()]
    assert pl.Trainer(model, given, train_dataset=dataset_of(rows), callbacks=flow).train().global_step == 6


def test_the_tensorboard_callback_of_transformers(tmp_path, model, rows):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from transformers.integrations import TensorBoardCallback
    given = pl.TrainingArguments(**settings(tmp_path / "out"))
    pl.Trainer(model, given, train_dataset=dataset_of(rows), callbacks=[TensorBoardCallback()]).train()
    assert list((tmp_path / "out" / "runs").glob("*/events.out.tfevents.*"))


def test_a_configuration_is_planned():
    config = transformers.BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=256)
    plan = pl.plan(transformers.BertForSequenceClassification(config), device="l4")
    assert plan.num_parameters == sum(p.numel() for p in transformers.BertForSequenceClassification(config).parameters())
    given = transformers.TrainingArguments(output_dir="unused", gradient_accumulation_steps=4)
    assert pl.plan(config, given, device="l4", bf16=True)["request"]["gradient_accumulation_steps"] == 4


def test_arguments_are_made_from_those_of_transformers():
    theirs = transformers.TrainingArguments(output_dir="unused", learning_rate=3e-5, num_train_epochs=2, use_cpu=True)
    ours = pl.TrainingArguments(theirs, num_train_epochs=4, max_seq_length=64)
    assert (ours.output_dir, ours.learning_rate, ours.num_train_epochs, ours.max_seq_length) == ("unused", 3e-5, 4, 64)
