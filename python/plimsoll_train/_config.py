"""The configuration of a model: from its folder, from Hugging Face's cache, or from the hub."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional

from ._errors import error_of
from ._plan import error_in, run_program


def read_config(model: Any, settings: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Returns config.json of a folder, of a name on the hub, or of a model of transformers; None if there is none.

    A name that the cache does not have is asked for on the hub, as the run itself does, so that the result does not depend on the
    cache. `settings`: model_revision, cache_dir, token and local_files_only have their meaning on the command line.
    """
    if not isinstance(model, (str, os.PathLike)):
        config = getattr(model, "config", None)
        return None if config is None else dict(config.to_dict())
    name = os.fspath(model)
    path: Optional[str] = os.path.join(name, "config.json")
    if not os.path.isdir(name):
        path = _cached_config(name, settings) or _downloaded_config(name, settings)
    if path is None or not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        config_of_file: Dict[str, Any] = json.load(file)
    return config_of_file


def _cache_folder(settings: Mapping[str, Any]) -> str:
    """Returns the folder of Hugging Face's cache, which docs/DOWNLOADS.md describes."""
    value = os.environ.get
    home = value("HF_HOME") or os.path.join(value("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface")
    folder = settings.get("cache_dir") or value("HF_HUB_CACHE") or value("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    return os.path.expanduser(os.fspath(folder))


def _revision(settings: Mapping[str, Any]) -> str:
    return str(settings.get("model_revision") or "main")


def _cached_config(name: str, settings: Mapping[str, Any]) -> Optional[str]:
    repository = os.path.join(_cache_folder(settings), "models--" + name.replace("/", "--"))
    commit = _revision(settings)
    if not re.fullmatch("[0-9a-f]{40}", commit):
        try:
            with open(os.path.join(repository, "refs", commit), encoding="utf-8") as file:
                commit = file.read().strip()
        except OSError:
            return None
    path = os.path.join(repository, "snapshots", commit, "config.json")
    return path if os.path.exists(path) else None


def local_folder(name: str, settings: Mapping[str, Any]) -> Optional[str]:
    """Returns the folder of a model: its name if that is a folder, or its snapshot in the cache. Returns None if there is neither."""
    if not name or os.path.isdir(name):
        return name or None
    path = _cached_config(name, settings)
    return None if path is None else os.path.dirname(path)


def _may_download(settings: Mapping[str, Any]) -> bool:
    if str(settings.get("local_files_only", False)).lower() in ("true", "1"):
        return False
    offline = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return offline.upper() not in ("1", "ON", "YES", "TRUE")


def _downloaded_config(name: str, settings: Mapping[str, Any]) -> Optional[str]:
    """Downloads the configuration. Returns None if the hub has no such model or file; the run then reports the error itself."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name, re.ASCII) or not _may_download(settings):
        return None
    words: List[str] = ["download", name, "config.json", "--revision", _revision(settings), "--quiet"]
    for setting in ("cache_dir", "token"):
        if isinstance(settings.get(setting), (str, os.PathLike)):
            words += ["--" + setting, os.fspath(settings[setting])]
    exit_code, output, messages = run_program(words)
    if exit_code == 4:
        return None
    if exit_code != 0:
        raise error_of(exit_code, error_in(messages))
    return os.path.join(output.strip(), "config.json")


def names_in_config(config: Optional[Mapping[str, Any]]) -> Optional[List[str]]:
    """Returns the names of the labels of a model by id, or None if its configuration has none."""
    id2label = (config or {}).get("id2label")
    if not id2label:
        return None
    by_id = {int(key): str(value) for key, value in id2label.items()}
    return [by_id[i] for i in range(len(by_id))] if set(by_id) == set(range(len(by_id))) else None
