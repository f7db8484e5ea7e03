"""Tests training on data sets of other libraries, and tasks whose rows do not have exactly one class."""
import datetime
import decimal
import enum
import hashlib
import json
import os
import pathlib
import shutil
import uuid

import pytest

import plimsoll_train as pl
from conftest import ROOT, settings
from plimsoll_train._config import read_config
from plimsoll_train._data import rows_of, write_rows
from plimsoll_train._npy import padded, read_npy_as_lists


class Color(enum.Enum):
    RED = "red"


def weights(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def columns_of(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def kinds(rows):
    """Returns the rows in every form that the installed libraries offer, such as columns or a pandas DataFrame."""
    columns = columns_of(rows)
    made = {"columns": columns}
    try:
        import pandas
        made["pandas"] = pandas.DataFrame(columns)
    except ImportError:
        pass
    try:
        import polars
        made["polars"] = polars.DataFrame(columns)
    except ImportError:
        pass
    try:
        import pyarrow
        made["pyarrow"] = pyarrow.table(columns)
    except ImportError:
        pass
    try:
        import datasets
        made["datasets"] = datasets.Dataset.from_dict(columns)
    except ImportError:
        pass
    return made


def test_every_kind_of_data_set_has_the_same_rows(rows):
    for name, data in kinds(rows).items():
        assert list(rows_of(data)) == rows, name


def test_values_of_every_type_are_written(tmp_path):
    rows = [{"text": "naïve \u2028 東京", "label": 1, "score": 0.1, "ids": (1, 2), "none": None, "nan": float("nan"), "ok": True}]
    written = write_rows(rows, str(tmp_path / "rows.jsonl"))
    assert written.labels == [1] and written.num_rows == 1
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").split("\n")
    assert json.loads(lines[0]) == {**rows[0], "ids": [1, 2], "nan": None} and lines[1:] == [""]
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    write_rows([{"ids": numpy.arange(2), "label": numpy.int64(3), "x": numpy.float32(0.5)}], str(tmp_path / "other.jsonl"))
    assert json.loads((tmp_path / "other.jsonl").read_text()) == {"ids": [0, 1], "label": 3, "x": 0.5}


def test_data_sets_that_cannot_be_read_are_refused():
    for data in (5, [1, 2], {"text": "a"}, iter([])):
        with pytest.raises(pl.UsageError):
            list(rows_of(data))
    with pytest.raises(pl.BadData, match="different lengths"):
        list(rows_of({"a": [1], "b": [1, 2]}))


def test_training_does_not_depend_on_the_kind_of_data_set(tmp_path, model, rows):
    hashes = {}
    for name, data in kinds(rows).items():
        pl.Trainer(model, settings(tmp_path / name, max_steps=2), train_dataset=data).train()
        hashes[name] = weights(tmp_path / name)
    assert len(set(hashes.values())) == 1, hashes


def test_integer_labels_are_ids_of_the_model(tmp_path, model, rows):
    names = ["bad", "good", "odd"]
    # Rows of the class "odd" are left out, so that the names of the classes cannot be derived from the data.
    two = [{**row, "label": names.index(row["label"])} for row in rows if row["label"] != "odd"]
    pl.Trainer(model, settings(tmp_path / "out", max_steps=2), train_dataset=two).train()
    config = json.load(open(tmp_path / "out" / "config.json"))
    assert config["id2label"] == {"0": "bad", "1": "good", "2": "odd"}


def test_integer_labels_that_the_model_does_not_have_make_a_new_head(tmp_path, model, rows):
    more = [{**row, "label": i % 5} for i, row in enumerate(rows)]
    few = [{**row, "label": i % 2} for i, row in enumerate(rows)]
    trainer = pl.Trainer(model, settings(tmp_path / "out", eval_strategy="steps", eval_steps=3, ignore_mismatched_sizes=True),
                         train_dataset=more, eval_dataset=few)
    trainer.train()
    assert json.load(open(tmp_path / "out" / "config.json"))["id2label"] == {str(i): str(i) for i in range(5)}
    assert list(trainer.predict(few).label_ids) == [row["label"] for row in few]
    few.append({**rows[0], "label": 4})
    assert list(trainer.predict(few).label_ids)[-1] == 4


def test_class_labels_arrive_in_id2label(tmp_path, model, rows):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    names = ["odd", "good", "bad"]
    features = datasets.Features({"sentence": datasets.Value("string"), "label": datasets.ClassLabel(names=names)})
    data = datasets.Dataset.from_dict({"sentence": [row["sentence"] for row in rows],
                                       "label": [names.index(row["label"]) for row in rows]}, features=features)
    trainer = pl.Trainer(model, settings(tmp_path / "out", max_steps=2), train_dataset=data)
    trainer.train()
    config = json.load(open(tmp_path / "out" / "config.json"))
    assert config["id2label"] == {"0": "odd", "1": "good", "2": "bad"}
    assert [int(i) for i in trainer.predict(data).label_ids] == data["label"]


def test_token_ids_of_any_tokenizer(tmp_path, model, rows):
    ids = [{"input_ids": [2] + [20 + (len(row["sentence"]) * k) % 100 for k in range(1, 6)] + [3], "labels": row["label"]}
           for row in rows]
    trainer = pl.Trainer(model, settings(tmp_path / "out", max_steps=2), train_dataset=ids)
    trainer.train()
    assert trainer.predict(ids).metrics["test_samples"] == len(ids)


def test_regression_and_tags(tmp_path, rows):
    models = os.path.join(ROOT, "tests", "parity", "models")
    numbers = [json.loads(line) for line in open(os.path.join(ROOT, "tests", "parity", "data", "regression.jsonl"), encoding="utf-8")]
    model = str(shutil.copytree(os.path.join(models, "bert_regression"), tmp_path / "regression"))
    trainer = pl.Trainer(model, settings(tmp_path / "r", max_steps=2), train_dataset=numbers,
                         compute_metrics=lambda p: {"own_mse": sum((a[0] - b) ** 2 for a, b in zip(p[0].tolist(), p[1].tolist())) / len(p[1])}
                         if hasattr(p[0], "tolist") else {"own_mse": 0})
    trainer.train()
    metrics = trainer.evaluate(numbers)
    if hasattr(trainer.predict(numbers).predictions, "shape"):
        assert metrics["eval_own_mse"] == pytest.approx(metrics["eval_mse"], rel=1e-4)
    tagged = [json.loads(line) for line in open(os.path.join(ROOT, "tests", "parity", "data", "tokens.jsonl"), encoding="utf-8")]
    model = str(shutil.copytree(os.path.join(models, "bert_tokens"), tmp_path / "tokens"))
    trainer = pl.Trainer(model, settings(tmp_path / "t", max_steps=2), train_dataset=tagged)
    trainer.train()
    output = trainer.predict(tagged)
    assert len(output.predictions) == len(output.label_ids) == len(tagged)
    tag_column = next(name for name in tagged[0] if name not in ("tokens", "words", "id"))
    names = json.load(open(tmp_path / "t" / "config.json"))["id2label"]
    for labels, row in zip(output.label_ids, tagged):
        read = [names[str(int(i))] for i in labels if i != -100]
        given = [str(tag) for tag in row[tag_column]]
        assert read == given[:len(read)]


def test_sets_of_labels_and_adapters(tmp_path, model, rows):
    sets = [{"sentence": row["sentence"], "label": [row["label"]]} for row in rows]
    trainer = pl.Trainer(model, settings(tmp_path / "sets", max_steps=2), train_dataset=sets)
    trainer.train()
    labels = trainer.predict(sets).label_ids
    names = json.load(open(tmp_path / "sets" / "config.json"))["id2label"]
    assert [[names[str(i)] for i, value in enumerate(row) if value] for row in labels] == [row["label"] for row in sets]
    adapted = pl.Trainer(model, settings(tmp_path / "lora", lora_r=4), train_dataset=rows)
    before = adapted.evaluate(rows)
    adapted.train()
    assert adapted.evaluate(rows)["eval_loss"] != before["eval_loss"]
    adapted.save_model(tmp_path / "copy")
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(os.listdir(tmp_path / "copy"))


def test_arrays_without_numpy(tmp_path, model, rows):
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    for array in (numpy.arange(6, dtype="<f4").reshape(3, 2), numpy.arange(3, dtype="<i4"), numpy.arange(3, dtype="<i8")):
        numpy.save(tmp_path / "array.npy", array)
        assert read_npy_as_lists(str(tmp_path / "array.npy")) == array.tolist()
    rows = numpy.arange(6, dtype="f4").reshape(3, 2)
    assert padded(rows, [0, 1, 3]).tolist() == padded(rows.tolist(), [0, 1, 3]) == [[[0, 1], [-100, -100]], [[2, 3], [4, 5]]]


def test_values_that_json_does_not_have_are_refused(tmp_path):
    path = str(tmp_path / "rows.jsonl")
    for value, words in ((float("inf"), "an infinity"), (-float("inf"), "an infinity"), ([1.0, float("inf")], "an infinity"), (b"text", "bytes"),
                         ({"a": [bytearray(b"x")]}, "bytes"), (object(), "an object of type object"), (1j, "an object of type complex")):
        with pytest.raises(pl.BadData) as caught:
            write_rows([{"text": "a", "x": 1}, {"text": "b", "x": value}], path)
        assert str(caught.value).startswith(f"row 1 of the data set, column 'x': the value is {words}"), caught.value
    for row in ({"text": "a \ud83d b"}, {"text": ["a", "\udc80"]}, {"te\udcffxt": 1}):
        with pytest.raises(pl.BadData) as caught:
            write_rows([{"id": 1, **row}], path)
        assert "row 0 of the data set, column 'te" in str(caught.value) and "half of a character of UTF-16" in str(caught.value)
    deep = []
    for _ in range(100000):
        deep = [deep]
    with pytest.raises(pl.BadData, match="column 'x': the value is nested too deeply"):
        write_rows([{"x": deep}], path)


def test_other_values_have_a_conversion(tmp_path):
    row = {"half": decimal.Decimal("0.5"), "day": datetime.date(2026, 1, 2), "path": pathlib.PurePosixPath("a/b"), "label": Color.RED,
           "id": uuid.UUID(int=1)}
    written = write_rows([row], str(tmp_path / "rows.jsonl"))
    assert json.loads((tmp_path / "rows.jsonl").read_text()) == {"half": 0.5, "day": "2026-01-02", "path": "a/b", "label": "red",
                                                                "id": "00000000-0000-0000-0000-000000000001"}
    assert written.labels == ["red"]


class Feature:
    """Imitates the ClassLabel feature of the package datasets, which need not be installed."""

    def __init__(self, names):
        self.names = names


class Labelled(list):
    """A data set of rows whose column `label` has integer labels, and a feature with their names."""

    def __init__(self, rows, names):
        super().__init__({**row, "label": names.index(row["label"])} for row in rows)
        self.features = {"label": Feature(names)}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Starts a simulated Hugging Face hub on the loopback interface and returns it. The cache of models is empty."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "tests", "downloads"))
    from hub_server import Hub
    started = Hub()
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "HF_TOKEN", "http_proxy",
                 "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_ENDPOINT", started.endpoint)
    yield started
    started.close()


def files_of(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}


def test_the_order_of_class_names_does_not_depend_on_the_cache(tmp_path, model, rows, hub):
    hub.add("org/tiny", files_of(model))
    names = ["odd", "good", "bad"]
    for output in ("empty", "filled"):
        trainer = pl.Trainer("org/tiny", settings(tmp_path / output, max_steps=1), train_dataset=Labelled(rows, names))
        trainer.train()
        assert json.load(open(tmp_path / output / "config.json"))["id2label"] == {"0": "odd", "1": "good", "2": "bad"}, output
    # Integer labels must be interpreted as the ids of the model's own classes, whose order differs from that of the names in the data set.
    two = [{**row, "label": ["bad", "good", "odd"].index(row["label"])} for row in rows if row["label"] != "odd"]
    shutil.rmtree(tmp_path / "hf")
    pl.Trainer("org/tiny", settings(tmp_path / "ids", max_steps=1), train_dataset=two).train()
    assert json.load(open(tmp_path / "ids" / "config.json"))["id2label"] == {"0": "bad", "1": "good", "2": "odd"}


def test_revisions_and_other_caches_are_read(tmp_path, model, hub):
    old = hub.add("org/tiny", {"config.json": b'{"id2label": {"0": "a"}}'}, refs=("main", "v1"))
    given = {"cache_dir": str(tmp_path / "other"), "model_revision": "v1"}
    assert read_config("org/tiny", given) == {"id2label": {"0": "a"}}
    assert os.path.exists(tmp_path / "other" / "models--org--tiny" / "refs" / "v1") and not os.path.exists(tmp_path / "hf")
    hub.close()
    assert read_config("org/tiny", given) == read_config("org/tiny", {**given, "model_revision": old}) == {"id2label": {"0": "a"}}
    # The hub cannot be reached, and this revision is not in the cache.
    assert read_config("org/tiny", {"cache_dir": given["cache_dir"], "local_files_only": True}) is None
    with pytest.raises(pl.DeviceError, match="cannot be reached"):
        read_config("org/tiny", {"cache_dir": given["cache_dir"]})


def test_a_stream_of_arrow_is_read_once_and_kept(tmp_path, model, rows):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    trainer = pl.Trainer(model, settings(tmp_path / "stream"), train_dataset=pyarrow.Table.from_pylist(rows).to_reader())
    assert trainer.plan.fits()
    trainer.train()
    pl.Trainer(model, settings(tmp_path / "rows"), train_dataset=rows).train()
    assert weights(tmp_path / "stream") == weights(tmp_path / "rows")


def test_a_lazy_frame_of_polars_is_collected(rows):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert list(rows_of(polars.DataFrame(rows).lazy())) == rows


def test_several_data_sets_in_a_dict_are_refused(rows):
    with pytest.raises(pl.UsageError, match="several data sets"):
        list(rows_of({"one": rows, "two": rows}))
    assert len(list(rows_of({"messages": [[{"role": "user", "content": "a"}]]}))) == 1


def test_predictions_of_a_file_have_its_labels(tmp_path, model, validation_rows):
    trainer = pl.Trainer(model, settings(tmp_path / "out"))
    of_file = trainer.predict(os.path.join(ROOT, "tests/parity/data/single_validation.tsv"))
    of_rows = trainer.predict(validation_rows)
    assert list(of_file.label_ids) == list(of_rows.label_ids) and of_file.metrics["test_loss"] == of_rows.metrics["test_loss"]
    unlabelled = tmp_path / "unlabelled.jsonl"
    unlabelled.write_text("".join(json.dumps({"sentence": row["sentence"]}) + "\n" for row in validation_rows))
    assert trainer.predict(unlabelled).label_ids is None
