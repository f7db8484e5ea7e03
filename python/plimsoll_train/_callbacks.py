"""The state of a training, its callbacks, and progress bars. The names are those of Hugging Face's Trainer."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from html import escape
from typing import Any, Dict, List, Mapping, NamedTuple, Optional


@dataclasses.dataclass
class TrainerState:
    """The state of a training, which callbacks can read: steps, epochs, logs and metrics so far."""

    epoch: float = 0.0
    global_step: int = 0
    max_steps: int = 0
    num_train_epochs: float = 0.0
    train_batch_size: int = 0
    logging_steps: int = 500
    eval_steps: int = 500
    save_steps: int = 500
    total_flos: float = 0.0
    num_input_tokens_seen: int = 0
    log_history: List[Dict[str, Any]] = dataclasses.field(default_factory=list)
    best_metric: Optional[float] = None
    best_global_step: Optional[int] = None
    best_model_checkpoint: Optional[str] = None
    is_local_process_zero: bool = True
    is_world_process_zero: bool = True
    is_hyper_param_search: bool = False
    trial_name: Optional[str] = None
    trial_params: Optional[Dict[str, Any]] = None

    def compute_steps(self, args: Any, max_steps: int) -> None:
        """Sets max_steps and the numbers of steps between logs, evaluations and checkpoints. Numbers below 1 are fractions of max_steps."""
        self.max_steps = max_steps
        for name in ("logging_steps", "eval_steps", "save_steps"):
            steps = args.get(name) if isinstance(args, Mapping) else getattr(args, name, None)
            if isinstance(steps, (int, float)) and steps > 0:
                setattr(self, name, math.ceil(max_steps * steps) if steps < 1 else int(steps))


@dataclasses.dataclass
class TrainerControl:
    """The requests of callbacks, which are fulfilled after the current step."""

    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False

    def take_requests(self) -> List[str]:
        """Returns the names of the requests that are set, in the form that the program expects, and resets them."""
        requests = [name for name, is_set in (("stop", self.should_training_stop), ("evaluate", self.should_evaluate),
                                              ("save", self.should_save), ("log", self.should_log)) if is_set]
        self.should_save = self.should_evaluate = self.should_log = False
        return requests


class TrainerCallback:
    """Base class of callbacks. Those of transformers work too. A method may return a changed `control`."""

    def on_init_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...
    def on_predict(self, args: Any, state: TrainerState, control: TrainerControl, metrics: Any, **kwargs: Any) -> Any: ...
    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> Any: ...


class EvalPrediction(NamedTuple):
    """The outputs and labels of an evaluation, for compute_metrics."""

    predictions: Any
    label_ids: Any


class PredictionOutput(NamedTuple):
    """The result of Trainer.predict()."""

    predictions: Any
    label_ids: Any
    metrics: Dict[str, float]


class TrainOutput(NamedTuple):
    """The result of Trainer.train()."""

    global_step: int
    training_loss: float
    metrics: Dict[str, float]


class Progress:
    """Shows the progress of a training: an HTML bar in a notebook, a line in a terminal, nothing elsewhere."""

    def __init__(self, is_disabled: bool) -> None:
        self._is_notebook = not is_disabled and _is_notebook()
        self._is_terminal = not is_disabled and not self._is_notebook and sys.stderr.isatty()
        self._start = time.monotonic()
        self._shown = 0.0
        self._display: Any = None

    def update(self, state: TrainerState, text: str = "", is_last: bool = False) -> None:
        """Shows the state, at most five times per second."""
        now = time.monotonic()
        if not (self._is_notebook or self._is_terminal) or (now - self._shown < 0.2 and not is_last):
            return
        self._shown = now
        if self._is_notebook:
            self._show_in_notebook(state, text)
        else:
            end = "\n" if is_last else ""
            sys.stderr.write(f"\r\033[K{state.global_step}/{state.max_steps} steps, epoch {state.epoch:.2f}{self._left(state)} {text}{end}")
            sys.stderr.flush()

    def _left(self, state: TrainerState) -> str:
        if state.global_step == 0:
            return ""
        seconds = (time.monotonic() - self._start) / state.global_step * (state.max_steps - state.global_step)
        return f", {int(seconds) // 60}:{int(seconds) % 60:02d} left"

    def _show_in_notebook(self, state: TrainerState, text: str) -> None:
        import IPython.display  # type: ignore[import-not-found,unused-ignore]
        shown: Any = IPython.display
        by_step: Dict[int, Dict[str, Any]] = {}
        for entry in state.log_history:
            if "loss" in entry or "eval_loss" in entry:
                by_step.setdefault(entry["step"], {}).update(entry)
        rows = list(by_step.values())
        names: List[str] = []
        for entry in rows:
            names += [name for name in entry if name not in names and name in ("loss", "learning_rate") or
                      (name.startswith("eval_") and not name.endswith(("_second", "_runtime")) and name not in names)]
        head = "".join(f"<th>{escape(name)}</th>" for name in ["step", *names])
        body = "".join("<tr>" + f"<td>{entry['step']}</td>" + "".join(
            f"<td>{entry[name]:.4g}</td>" if isinstance(entry.get(name), (int, float)) else "<td></td>" for name in names) + "</tr>"
            for entry in rows[-20:])
        page = shown.HTML(f"<progress value='{state.global_step}' max='{max(state.max_steps, 1)}' style='width:20em'></progress> "
                          f"{state.global_step}/{state.max_steps} steps, epoch {state.epoch:.2f}{self._left(state)} {escape(text)}"
                          f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        if self._display is None:
            self._display = shown.display(page, display_id=True)
        else:
            self._display.update(page)


def _is_notebook() -> bool:
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    # Colab's shell is a subclass of Jupyter's with another name.
    return any(base.__name__ == "ZMQInteractiveShell" for base in type(shell).__mro__)
