"""Plans of memory and time, which need neither a GPU nor weights."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from html import escape
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from ._errors import InternalError, UsageError, error_of
from ._program import program_path
from ._settings import as_words, settings_of, without_token

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def bytes_of(size: Union[int, str]) -> int:
    """Converts a size, which is a number or a text such as 16GiB, to a number of bytes."""
    if isinstance(size, int):
        return size
    text = size.strip().lower()
    number = text.rstrip("bikmgt ")
    try:
        return int(float(number) * _UNITS[text[len(number):].strip()])
    except (ValueError, KeyError):
        raise UsageError(f"'{size}' is no size of memory; write a number of bytes, or a text such as 16GiB") from None


def _frame(rows: List[Dict[str, Any]], index: Optional[str] = None) -> Any:
    """Returns rows as a DataFrame of pandas or, if that is not installed, of polars."""
    try:
        import pandas  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        try:
            import polars
        except ImportError:
            raise ImportError("to_frame() needs pandas or polars; install one of them") from None
        return polars.DataFrame(rows)
    frame = pandas.DataFrame(rows)
    return frame.set_index(index) if index is not None and rows else frame


def _mib(count: float) -> str:
    return f"{count / 2**20:,.1f}"


class Plan:
    """The memory and the time of a run. `plan[key]` is a part of plan.json, which docs/GUIDE.md describes.

    Attributes: `data` (plan.json), `refusal` (why the run does not fit, with changes that need less; "" if it fits),
    `warnings` and `notes` about the settings.
    """

    def __init__(self, data: Mapping[str, Any], refusal: str = "", warnings: Tuple[str, ...] = (),
                 notes: Tuple[str, ...] = ()) -> None:
        self.data: Dict[str, Any] = dict(data)
        self.refusal = refusal
        self.warnings = list(warnings)
        self.notes = list(notes)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    @property
    def total_bytes(self) -> int:
        """The memory of the run at its peak, including that of libraries."""
        return int(self.data["total_bytes"])

    @property
    def arena_bytes(self) -> int:
        """The memory that the run allocates once, at its start."""
        return sum(int(space["arena_bytes"]) for space in self.data["spaces"])

    @property
    def phases(self) -> Dict[str, Dict[str, Any]]:
        """The memory of each phase, in the order of a run: load, resume, train, eval, save."""
        by_phase: Dict[str, Dict[str, Any]] = self.data["by_phase"]
        order = [name for name in ("load", "resume", "train", "eval", "save") if name in by_phase]
        return {name: by_phase[name] for name in [*order, *(name for name in by_phase if name not in order)]}

    @property
    def purposes(self) -> Dict[str, int]:
        """The bytes of each purpose (such as weights and gradients) at the peak."""
        return dict(self.data["by_purpose"])

    @property
    def peak(self) -> Dict[str, Any]:
        """The op at which the run needs most memory: module, op, output and other fields."""
        peaks = self.data["peaks"]
        return dict(peaks[0]) if peaks else {}

    @property
    def num_parameters(self) -> int:
        return int(self.data["parameters"]["num_parameters"])

    @property
    def num_trainable_parameters(self) -> int:
        return int(self.data["parameters"]["num_trainable_parameters"])

    @property
    def step_ms(self) -> Optional[float]:
        """The estimated time of a step; None if the device has no estimate."""
        estimate = self.data.get("estimate")
        return None if not estimate else float(estimate["ms"])

    @property
    def samples_per_second(self) -> Optional[float]:
        estimate = self.data.get("estimate")
        return None if not estimate else float(estimate["samples_per_second"])

    def fits(self, memory: Union[int, str, None] = None) -> bool:
        """Returns true if the run fits into this memory, by default into that of --memory_limit or of the device."""
        return not self.refusal if memory is None else self.total_bytes <= bytes_of(memory)

    def to_frame(self) -> Any:
        """Returns the bytes of each phase (rows) and purpose (columns) as a DataFrame of pandas or polars."""
        rows = [{"phase": name, **phase["by_purpose"], "total": phase["total_bytes"]} for name, phase in self.phases.items()]
        return _frame(rows, "phase")

    def __repr__(self) -> str:
        fits = "" if self.fits() else ", does not fit"
        return f"<Plan of {self.data['request']['model']}: {_mib(self.total_bytes)} MiB on {self.data['request']['device']}{fits}>"

    def _repr_html_(self) -> str:
        purposes = [name for name in next(iter(self.phases.values()))["by_purpose"]
                    if any(phase["by_purpose"][name] for phase in self.phases.values())]
        colours = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f")
        highest = max(phase["total_bytes"] for phase in self.phases.values()) or 1
        head = "".join(f"<th style='text-align:right'>{escape(name)}</th>" for name in self.phases)
        rows = ""
        for i, purpose in enumerate(purposes):
            cells = "".join(f"<td style='text-align:right'>{_mib(phase['by_purpose'][purpose])}</td>" for phase in self.phases.values())
            mark = f"<span style='background:{colours[i % 8]};display:inline-block;width:.8em;height:.8em'></span> "
            rows += f"<tr><td style='text-align:left'>{mark}{escape(purpose.replace('_', ' '))}</td>{cells}</tr>"
        totals = "".join(f"<td style='text-align:right'><b>{_mib(phase['total_bytes'])}</b></td>" for phase in self.phases.values())
        bars = ""
        for name, phase in self.phases.items():
            parts = "".join(
                f"<div title='{escape(purpose)}: {_mib(phase['by_purpose'][purpose])} MiB' style='background:{colours[i % 8]};"
                f"width:{100 * phase['by_purpose'][purpose] / highest:.2f}%;height:1em'></div>" for i, purpose in enumerate(purposes))
            bars += (f"<div style='display:flex;max-width:40em'><span style='width:5em'>{escape(name)}</span>"
                     f"<div style='display:flex;flex:1'>{parts}</div></div>")
        speed = "" if self.step_ms is None else f", about {self.step_ms:,.1f} ms per step"
        refusal = "" if self.fits() else f"<pre style='color:#b00'>{escape(self.refusal)}</pre>"
        remarks = "".join(f"<div>{kind}: {escape(text)}</div>" for kind, texts in (("warning", self.warnings), ("note", self.notes))
                          for text in texts)
        return (f"<div><b>{escape(str(self.data['request']['model']))}</b> on {escape(str(self.data['request']['device']))}: "
                f"{_mib(self.total_bytes)} MiB{speed}{refusal}{remarks}{bars}"
                f"<table><thead><tr><th style='text-align:left'>MiB</th>{head}</tr></thead><tbody>{rows}"
                f"<tr><td style='text-align:left'><b>total</b></td>{totals}</tr></tbody></table></div>")


class FitResult:
    """The settings with which a training fits into the given memory, fastest first. `rows` has one dict for each;
    `data` is the JSON of `plimsoll fit`."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data: Dict[str, Any] = dict(data)

    @property
    def rows(self) -> List[Dict[str, Any]]:
        return list(self.data["rows"])

    @property
    def best(self) -> Optional[Dict[str, Any]]:
        """The first row that fits, or None."""
        return next((row for row in self.rows if row["fits"]), None)

    def to_frame(self) -> Any:
        """Returns the rows as a DataFrame of pandas or polars, in which lists are converted to texts."""
        return _frame([{name: " ".join(value) if isinstance(value, list) else value for name, value in row.items()}
                       for row in self.rows])

    def __len__(self) -> int:
        return len(self.data["rows"])

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self.rows)

    def __repr__(self) -> str:
        lines = [f"{' '.join(row['arguments'])}: {_mib(row['total_bytes'])} MiB, {row['samples_per_second']:.1f} samples/s"
                 for row in self.rows if row["fits"]]
        return "\n".join(lines) or "<FitResult: nothing fits>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td style='text-align:left'><code>{escape(' '.join(row['arguments']))}</code></td>"
                       f"<td>{escape(str(row['device']))}</td><td>{_mib(row['total_bytes'])}</td>"
                       f"<td>{row['samples_per_second']:.1f}</td></tr>" for row in self.rows if row["fits"])
        return ("<table><thead><tr><th style='text-align:left'>arguments</th><th>device</th><th>MiB</th><th>samples/s</th></tr>"
                f"</thead><tbody>{rows}</tbody></table>")


def remarks_of(text: str, kind: str) -> Tuple[str, ...]:
    """Returns the messages of one kind ("warning" or "note") in the output of the program."""
    return tuple(line[len(kind) + 2:] for line in text.splitlines() if line.startswith(kind + ": "))


def error_in(text: str) -> str:
    """Returns the message of the error with which the program ended."""
    begin = text.rfind("plimsoll: ")
    return text[begin + len("plimsoll: "):].strip() if begin >= 0 else text.strip()[-2000:]


def run_program(words: List[str]) -> Tuple[int, str, str]:
    """Runs the program to its end. Returns its exit code, its output and its messages."""
    words, environment = without_token(list(words))
    done = subprocess.run([program_path(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


@contextlib.contextmanager
def model_words(model: Any) -> Iterator[List[str]]:
    """Provides the command-line arguments for a model: a preset, a folder, a hub name, or a model or configuration of transformers."""
    if model is None:
        yield []
    elif isinstance(model, (str, os.PathLike)):
        name = os.fspath(model)
        is_preset = not os.path.exists(name) and "/" not in name
        yield ["--config_name" if is_preset else "--model_name_or_path", name]
    else:
        config = getattr(model, "config", model)
        if not hasattr(config, "to_json_string"):
            raise UsageError(f"a model of type {type(model).__name__} cannot be planned; pass a name, a folder, or a model or "
                             "configuration of transformers")
        with tempfile.TemporaryDirectory(prefix="plimsoll-") as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(config.to_json_string(use_diff=False))
            yield ["--config_name", folder]


def plan(model: Any = None, args: Any = None, **settings: Any) -> Plan:
    """Plans a training: plan("bert-large-uncased", device="l4", bf16=True). Needs neither a GPU nor weights.

    `model`: a preset, a folder, a name in Hugging Face's cache, or a model or configuration of transformers. `args`: settings as
    for Trainer. A plan that does not fit is returned; `plan.fits()` is then false. Raises UsageError and BadData.
    """
    given = {**settings_of(args), **settings}
    with model_words(model) as words:
        exit_code, output, messages = run_program(["plan", *words, *as_words(given), "--json", "-"])
    if exit_code not in (0, 3) or not output.strip():
        raise error_of(exit_code, error_in(messages))
    return Plan(_json(output), error_in(messages) if exit_code == 3 else "", remarks_of(messages, "warning"),
                remarks_of(messages, "note"))


def fit(model: Any = None, args: Any = None, **settings: Any) -> FitResult:
    """Finds the settings with which a training fits into a memory: fit("bert-base-uncased", memory="16GiB", device="l4").

    The settings are those of `plimsoll fit`: memory, effective_batch_size, all_methods=True and so on, and those of Trainer.
    Raises WillNotFit if nothing fits, and UsageError.
    """
    given = {**settings_of(args), **settings}
    words: List[str] = []
    for name in ("all_methods",):
        if given.pop(name, False):
            words.append("--" + name)
    with model_words(model) as named:
        exit_code, output, messages = run_program(["fit", *named, *words, *as_words(given), "--json"])
    if not output.strip() or exit_code not in (0, 3):
        raise error_of(exit_code, error_in(messages))
    return FitResult(_json(output))


def _json(text: str) -> Dict[str, Any]:
    try:
        parsed: Dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise InternalError(f"the program wrote text that is no JSON ({error}): {text[:200]}") from error
    return parsed
