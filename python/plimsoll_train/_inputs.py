"""The files that the program reads: the model, its configuration and tokenizer, and the data sets of a Trainer."""

from __future__ import annotations

import json
import os
import re
import tempfile
from typing import Any, Dict, List, Mapping, Optional

from ._config import local_folder, names_in_config, read_config
from ._data import WrittenData, class_names, without_stream, write_rows
from ._errors import BadData, UsageError

_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")


class Inputs:
    """The model and the data sets of a Trainer as files in a temporary folder. The folder is removed when this object is deleted."""

    def __init__(self, model: Any, tokenizer: Any, train_dataset: Any, settings: Mapping[str, Any]) -> None:
        self.model = model
        self.processing_class = tokenizer
        self.train_dataset = train_dataset
        self._settings = settings
        self._scratch = tempfile.TemporaryDirectory(prefix="plimsoll-")
        self._written: Dict[int, WrittenData] = {}
        self._tables: Dict[int, Any] = {}
        self._kept: List[Any] = []
        self._words: Optional[List[str]] = None
        self._num_files = 0
        # True if the training data has labels that the model does not have, so that the program creates a new
        # classification head.
        self._has_other_labels = False

    @property
    def label_column(self) -> str:
        return str(self._settings.get("label_column_name") or "label")

    def new_path(self, name: str) -> str:
        self._num_files += 1
        return os.path.join(self._scratch.name, f"{self._num_files}-{name}")

    def readable(self, text: str) -> str:
        """Replaces the names of temporary files in a text of the program by the names of the parameters for which they were written, and
        line numbers by those of rows, which begin with 0."""
        def name_of(found: "re.Match[str]") -> str:
            kind, line = found.group(1), found.group(2)
            name = {"train.jsonl": "train_dataset", "validation.jsonl": "eval_dataset", "test.jsonl": "test_dataset",
                    "tokenizer": "processing_class"}.get(kind, kind)
            return name if line is None else f"{name}, row {int(line) - 1}"

        return re.sub(re.escape(self._scratch.name) + r"/\d+-([a-z]+(?:\.jsonl)?)(?::(\d+)\b)?", name_of, text)

    def base_words(self) -> List[str]:
        """Returns the command-line arguments that name the tokenizer and the model before training."""
        if self._words is not None:
            return self._words
        words: List[str] = []
        model = self.model
        if model is not None and not isinstance(model, (str, os.PathLike)):
            if not hasattr(model, "save_pretrained"):
                raise UsageError(f"model: an object of type {type(model).__name__} cannot be trained; pass a folder, a name on the "
                                 "Hugging Face hub, or a model of transformers")
            folder = self.new_path("model")
            model.save_pretrained(folder)
            words = ["--model_name_or_path", folder]
        elif model is not None:
            words = ["--model_name_or_path", os.fspath(model)]
        names = class_names(self.train_dataset, self.label_column)
        config = read_config(model, self._settings) if names is not None and model is not None else None
        if names is not None and config is not None and names_in_config(config) != names:
            # The program numbers the classes in the order of the model's configuration. A copy of the configuration with the
            # classes in the order of the data set is therefore written and passed to it.
            config["id2label"] = {str(i): name for i, name in enumerate(names)}
            config["label2id"] = {name: i for i, name in enumerate(names)}
            config.pop("num_labels", None)
            folder = self.new_path("config")
            os.makedirs(folder)
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
            words += ["--config_name", folder]
        if self.processing_class is not None:
            tokenizer = self.processing_class
            if isinstance(tokenizer, (str, os.PathLike)):
                words += ["--tokenizer_name", os.fspath(tokenizer)]
            else:
                folder = self.new_path("tokenizer")
                tokenizer.save_pretrained(folder)
                words += ["--tokenizer_name", folder]
        elif model is not None and not isinstance(model, (str, os.PathLike)):
            source = local_folder(str(getattr(model, "name_or_path", "")), self._settings)
            if source is not None and any(os.path.exists(os.path.join(source, name)) for name in _TOKENIZER_FILES):
                words += ["--tokenizer_name", source]
        self._words = words
        return words

    def _label_names(self, data: Any, trained: Optional[str]) -> Optional[List[str]]:
        """Returns the names of integer labels: those of the data set, otherwise those of the model (of `trained` if it is not None)."""
        if self._settings.get("problem_type") in ("regression", "multi_label_classification"):
            return None
        names = class_names(data, self.label_column)
        if names is None:
            current = self.model if trained is None else trained
            names = names_in_config(read_config(current, self._settings)) if current is not None else None
        return names if names is not None and len(names) > 1 else None

    def write(self, data: Any, name: str, trained: Optional[str] = None) -> WrittenData:
        """Writes a data set to a file. A path is not written but returned as it is, and a data set that cannot change is written only once.

        `trained`: the folder of the trained model, or None before the training.
        """
        if isinstance(data, (str, os.PathLike)):
            return WrittenData(os.fspath(data), None, None, 0)
        known = self._written.get(id(data))
        # A stream of Arrow can be read only once, so its rows are kept as a table.
        given, data = data, self._tables.get(id(data)) or without_stream(data)
        if data is not given:
            self._tables[id(given)] = data
        if known is not None and (hasattr(data, "with_format") or hasattr(data, "to_batches")):
            return known
        # Other data sets, such as lists and DataFrames, may have changed since they were written, so they are written
        # again.
        path = self.new_path(name) if known is None else known.path
        names = None if self._has_other_labels and trained is None else self._label_names(data, trained)
        try:
            written = write_rows(data, path, self.label_column, names)
        except BadData:
            if class_names(data, self.label_column) is not None or names is None:
                raise
            # The model does not have these labels, so they are written as they are, and the program creates a new
            # classification head.
            self._has_other_labels = self._has_other_labels or given is self.train_dataset
            written = write_rows(data, path, self.label_column, None)
        self._written[id(given)] = written
        if known is None:
            # The data set is stored by its id(), so it must stay alive: Python may give the id of a freed object to another one.
            self._kept.append(given)
        return written
