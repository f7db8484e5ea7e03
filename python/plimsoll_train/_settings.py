"""The settings of a run: their names are those of the command line, and of Hugging Face's TrainingArguments."""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
import subprocess
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ._errors import UsageError
from ._program import program_path


@functools.lru_cache(maxsize=None)
def _schema_of(program: str) -> Dict[str, Dict[str, Any]]:
    text = subprocess.run([program, "schema"], check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout
    properties: Dict[str, Dict[str, Any]] = json.loads(text)["properties"]
    return properties


def known_settings() -> Dict[str, Dict[str, Any]]:
    """Returns the JSON Schema of every setting by name."""
    return _schema_of(program_path())


def as_word(name: str, value: Any) -> str:
    """Formats a value of a setting for the command line."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [as_word(name, item) for item in value]
        for item in items:
            if "," in item:
                raise UsageError(f"{name}: the element '{item}' contains a comma, which separates the elements of a list; "
                                 "choose a name without one")
        return ",".join(items)
    if isinstance(value, (int, float)):
        return repr(value)
    if hasattr(value, "item"):
        return as_word(name, value.item())
    raise UsageError(f"{name}: a value of type {type(value).__name__} cannot be passed to the program; pass a number, a text, "
                     "a bool, a list or a dict")


def as_words(settings: Mapping[str, Any]) -> List[str]:
    """Formats settings as words of a command line. Settings that are None are omitted."""
    words: List[str] = []
    for name, value in settings.items():
        if value is not None:
            words += ["--" + name, as_word(name, value)]
    return words


def without_token(words: List[str]) -> Tuple[List[str], Dict[str, str]]:
    """Returns the command line without --token and its value, and the environment with the token as HF_TOKEN. Every user of a
    machine can read the command line of a process."""
    environment = dict(os.environ)
    if "--token" not in words:
        return words, environment
    at = words.index("--token")
    environment["HF_TOKEN"] = words[at + 1]
    return words[:at] + words[at + 2:], environment


class TrainingArguments:
    """The settings of a run by name, as keyword arguments: TrainingArguments("runs/mine", num_train_epochs=3, bf16=True).

    The names are those of `plimsoll train --help all` and of Hugging Face's class. Reading a setting that was not given returns
    its default. The first parameter can also be an object of Hugging Face's class, whose settings are taken over.
    """

    def __init__(self, output_dir: Any = "trainer_output", **settings: Any) -> None:
        if hasattr(output_dir, "to_dict"):
            settings = {**settings_of(output_dir), **settings}
            output_dir = settings.pop("output_dir")
        known = known_settings()
        for name in settings:
            if name not in known:
                import difflib
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else "; `plimsoll train --help all` lists them"
                raise UsageError(f"TrainingArguments: '{name}' is no setting{hint}")
        self._settings: Dict[str, Any] = {"output_dir": os.fspath(output_dir), **settings}
        self.notes: List[str] = []

    def to_dict(self) -> Dict[str, Any]:
        """Returns the settings that were given."""
        return dict(self._settings)

    def to_sanitized_dict(self) -> Dict[str, Any]:
        """Returns the settings that were given as numbers, bools and texts, without the token, as trackers of experiments need them."""
        return {name: value if isinstance(value, (bool, int, float, str)) else as_word(name, value)
                for name, value in self._settings.items() if value is not None and name != "token"}

    def to_json_string(self) -> str:
        """Returns the settings that were given as JSON, without the token."""
        return json.dumps(self.to_sanitized_dict(), indent=2)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._settings:
            return self._settings[name]
        known = known_settings()
        if name not in known:
            raise AttributeError(f"TrainingArguments: '{name}' is no setting")
        return known[name].get("default")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name == "notes":
            super().__setattr__(name, value)
        elif name in known_settings():
            self._settings[name] = value
        else:
            raise UsageError(f"TrainingArguments: '{name}' is no setting; `plimsoll train --help all` lists them")

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __repr__(self) -> str:
        return "TrainingArguments(" + ", ".join(f"{k}={v!r}" for k, v in self._settings.items()) + ")"


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def settings_of(arguments: Any) -> Dict[str, Any]:
    """Returns the settings of TrainingArguments, of transformers' TrainingArguments, of a dict, or of None.

    For transformers' object, these are the settings that differ from the defaults of its class, and logging_steps.
    """
    if arguments is None:
        return {}
    if isinstance(arguments, TrainingArguments):
        return arguments.to_dict()
    if isinstance(arguments, Mapping):
        return TrainingArguments(**arguments).to_dict()
    if not hasattr(arguments, "to_dict"):
        raise UsageError(f"args has the type {type(arguments).__name__}; pass plimsoll_train.TrainingArguments, transformers' "
                         "TrainingArguments, or a dict")
    given: Dict[str, Any] = arguments.to_dict()
    defaults = _defaults_of(arguments)
    settings = {"output_dir": given.get("output_dir", "trainer_output")}
    for name, value in given.items():
        is_secret = name.endswith("token") or name.startswith("_")
        is_completed = name in _COMPLETED_SETTINGS and not value
        if is_secret or is_completed or name in _IGNORED_SETTINGS or _plain(value) == defaults.get(name):
            continue
        settings[name] = _plain(value)
    if not given.get("fsdp"):
        settings.pop("fsdp_config", None)
    # logging_steps is always passed, because the program would otherwise log twenty times per run.
    if "logging_steps" in given:
        settings["logging_steps"] = given["logging_steps"]
    return settings


# If the user does not give one of _COMPLETED_SETTINGS, transformers sets it to an empty value that differs from the default.
# An empty value therefore does not mean that the user gave it. _IGNORED_SETTINGS always have a value in transformers. Of these,
# output_dir is read separately, and the others have no effect here.
_COMPLETED_SETTINGS = ("activation_checkpointing", "gradient_checkpointing", "disable_tqdm", "report_to", "debug", "fsdp")
_IGNORED_SETTINGS = ("output_dir", "accelerator_config", "logging_dir")


def _defaults_of(arguments: Any) -> Dict[str, Any]:
    """Returns the defaults of the fields of a dataclass. It reads the fields, because creating an object would reset Accelerate's state."""
    if not dataclasses.is_dataclass(arguments):
        return {}
    return {field.name: _plain(field.default) for field in dataclasses.fields(arguments)
            if field.default is not dataclasses.MISSING}


def given_setting(arguments: Any, name: str, default: Optional[Any] = None) -> Any:
    """Returns a setting of TrainingArguments (of this package or of transformers) or of a dict; `default` if it is None."""
    value = arguments.get(name) if isinstance(arguments, Mapping) else getattr(arguments, name, None)
    return default if value is None else _plain(value)
