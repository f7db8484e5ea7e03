"""Writes data sets of other libraries as JSON lines, which the program reads."""

from __future__ import annotations

import decimal
import enum
import json
import math
import os
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._errors import BadData, UsageError

Row = Dict[str, Any]


def _plain(value: Any) -> Any:
    """Converts a value of NumPy, PyTorch, pandas or Arrow to a type that JSON supports. Raises ValueError if that is not possible."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("an infinity, which JSON does not have; replace it by a number, or by None for a missing value")
        return None if math.isnan(value) else value
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueError("bytes; decode a text with .decode(), or remove the column")
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if hasattr(value, "item"):
        return _plain(value.item())
    if type(value).__name__ == "NAType" or value != value:  # a missing value of pandas, or NaN
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return _plain(float(value))
    if isinstance(value, (uuid.UUID, os.PathLike)):
        return str(value)
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    raise ValueError(f"an object of type {type(value).__name__}; convert it to a text, a number or a list, or remove the column")


def _row_of(given: Mapping[Any, Any], place: str) -> Row:
    """Converts the values of a row to types that JSON supports. Raises BadData, with the row and the column, if that is not possible."""
    row: Row = {}
    for name, value in given.items():
        try:
            row[str(name)] = _plain(value)
        except (ValueError, OverflowError) as error:
            raise BadData(f"{place}, column {ascii(str(name))}: the value is {error}") from None
        except RecursionError:
            raise BadData(f"{place}, column {ascii(str(name))}: the value is nested too deeply") from None
    return row


def _line_of(row: Row, place: str) -> bytes:
    """Formats a row as a line of JSON. Raises BadData for texts that UTF-8 cannot encode."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError as error:
        code = f"U+{ord(error.object[error.start]):04X}"
    for name, value in row.items():
        try:
            json.dumps({name: value}, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            break
    raise BadData(f"{place}, column {ascii(name)}: the text contains {code}, half of a character of UTF-16, which UTF-8 cannot encode; replace "
                  "it, for example with text.encode('utf-8', 'replace').decode()")


def _rows_of_columns(columns: Mapping[str, Sequence[Any]]) -> Iterator[Row]:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise BadData(f"the columns of a data set have different lengths: {lengths}; every column needs a value per row")
    names = list(columns)
    for values in zip(*columns.values()):
        yield dict(zip(names, values))


def _is_data_set(part: Any) -> bool:
    """Returns true for a data set, and false for a column of a data set."""
    if isinstance(part, (list, tuple)):
        return len(part) > 0 and all(isinstance(row, Mapping) and ("sentence" in row or "input_ids" in row) for row in part)
    return hasattr(part, "column_names") or hasattr(part, "columns")


def without_stream(data: Any) -> Any:
    """Returns a table with the rows of a stream of Arrow, which can be read only once, and other data sets as they are."""
    if not hasattr(data, "__arrow_c_stream__") or hasattr(data, "__len__") or hasattr(data, "collect_schema"):
        return data
    import pyarrow  # type: ignore[import-untyped,unused-ignore]
    return pyarrow.table(data)


def rows_of(data: Any) -> Iterator[Row]:
    """Returns the rows of a data set as dicts.

    Takes datasets.Dataset, DataFrames of pandas and polars, tables of pyarrow, everything with __arrow_c_stream__ if pyarrow is
    installed, a dict of columns, a list of dicts, and data sets of PyTorch whose items are dicts.
    """
    if isinstance(data, Mapping):
        if any(isinstance(column, str) or not hasattr(column, "__len__") for column in data.values()):
            raise UsageError("a dict is read as columns, but a value is no list; if it has several data sets, pass one of them, "
                             "such as data['train']")
        if data and all(_is_data_set(part) for part in data.values()):
            raise UsageError(f"this object has several data sets ({', '.join(data)}); pass one of them, such as data['train']")
        yield from _rows_of_columns(data)
    elif hasattr(data, "features") and hasattr(data, "with_format"):  # a datasets.Dataset
        plain = data.with_format(None)
        if not hasattr(plain, "__len__"):
            raise UsageError("an IterableDataset has no number of rows; pass a Dataset")
        for begin in range(0, len(plain), 1000):
            yield from _rows_of_columns(plain[begin:begin + 1000])
    elif hasattr(data, "iter_rows"):  # a DataFrame of polars
        yield from data.iter_rows(named=True)
    elif hasattr(data, "collect_schema"):  # a LazyFrame of polars
        yield from rows_of(data.collect())
    elif hasattr(data, "to_batches"):  # a table of pyarrow
        for batch in data.to_batches():
            yield from batch.to_pylist()
    elif hasattr(data, "itertuples") and hasattr(data, "columns"):  # a DataFrame of pandas
        names = [str(name) for name in data.columns]
        for values in data.itertuples(index=False, name=None):
            yield dict(zip(names, values))
    elif hasattr(data, "__arrow_c_stream__"):
        import pyarrow  # type: ignore[import-untyped,unused-ignore]
        yield from rows_of(pyarrow.table(data))
    elif hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        for i in range(len(data)):
            row = data[i]
            if not isinstance(row, Mapping):
                raise UsageError(f"row {i} of a data set has the type {type(row).__name__}; every row has to be a dict of columns")
            yield dict(row)
    else:
        raise UsageError(f"a data set of type {type(data).__name__} cannot be read; pass a path, a datasets.Dataset, a DataFrame, a "
                         "table of Arrow, a dict of columns or a list of dicts")


def class_names(data: Any, column: str) -> Optional[List[str]]:
    """Returns the names of the classes of a column of datasets.Dataset (ClassLabel, or a list of it), or None."""
    features = getattr(data, "features", None)
    if not isinstance(features, Mapping) or column not in features:
        return None
    feature = features[column]
    for _ in range(2):
        names = getattr(feature, "names", None)
        if names is not None:
            return [str(name) for name in names]
        feature = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    return None


class WrittenData:
    """A data set that was written to a file.

    `labels` are the labels of the rows as they were given, with None for a row without one. `longest_ids` is the largest number of
    `input_ids` of a row, or 0 if the rows have texts.
    """

    def __init__(self, path: str, label_column: Optional[str], labels: Optional[List[Any]], num_rows: int, longest_ids: int = 0) -> None:
        self.path = path
        self.label_column = label_column
        self.labels = labels
        self.num_rows = num_rows
        self.longest_ids = longest_ids

    @property
    def has_labels(self) -> bool:
        return self.labels is not None and any(label is not None for label in self.labels)


def _label_column(row: Row, wanted: str) -> Optional[str]:
    if wanted in row:
        return wanted
    return next((name for name in ("labels", "ner_tags", "pos_tags", "chunk_tags", "tags") if name in row), None)


def _named(label: Any, names: Sequence[str], place: str) -> Any:
    """Converts the id of a class to its name. The id -1 means that there is no class, and gives None."""
    if isinstance(label, list):
        return [_named(item, names, place) for item in label]
    if isinstance(label, bool) or not isinstance(label, int):
        return label
    if label == -1:
        return None
    if not 0 <= label < len(names):
        raise BadData(f"{place}: the label is {label}, but the classes are numbered from 0 to {len(names) - 1}")
    return names[label]


def write_rows(data: Any, path: str, label_column: str = "label", names: Optional[Sequence[str]] = None) -> WrittenData:
    """Writes a data set as JSON lines. `names`: the names of classes by id; integer labels are written as their names."""
    column: Optional[str] = None
    labels: List[Any] = []
    count = 0
    longest_ids = 0
    with open(path, "wb") as file:
        for given in rows_of(data):
            place = f"row {count} of the data set"
            row = _row_of(given, place)
            if count == 0:
                column = _label_column(row, label_column)
            if column is not None and column in row:
                has_ids_per_token = isinstance(row[column], list) and "input_ids" in row
                if names is not None and not has_ids_per_token:
                    row[column] = _named(row[column], names, place)
                labels.append(row[column])
            if isinstance(row.get("input_ids"), list):
                longest_ids = max(longest_ids, len(row["input_ids"]))
            file.write(_line_of(row, place))
            count += 1
    if count == 0:
        raise BadData("a data set has no rows")
    return WrittenData(path, column, labels if column is not None else None, count, longest_ids)


def label_ids(labels: Iterable[Any], names: Sequence[str]) -> Tuple[List[Any], bool]:
    """Converts labels to the form of Trainer: ids of classes, numbers for a regression, or 0 and 1 per class for a multi-label task.

    The second value that is returned is true if each row has a list of labels, one per word.
    """
    ids = {name: i for i, name in enumerate(names)}

    def id_of(label: Any) -> Any:
        if label is None:
            return -100
        text = str(label)
        if text in ids:
            return ids[text]
        return label if isinstance(label, (int, float)) and not isinstance(label, bool) else -100

    result: List[Any] = []
    for label in labels:
        result.append([id_of(item) for item in label] if isinstance(label, list) else id_of(label))
    return result, any(isinstance(label, list) for label in result)
