"""A Trainer with the interface of Hugging Face's Trainer. It runs the program `plimsoll` as a child process."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ._callbacks import EvalPrediction, PredictionOutput, Progress, TrainerCallback, TrainerControl, TrainerState, TrainOutput
from ._data import WrittenData
from ._errors import UsageError, warn
from ._inputs import Inputs
from ._npy import padded, read_npy
from ._plan import Plan, run_program
from ._run import Event, Run, program_output
from ._settings import TrainingArguments, as_words, given_setting, known_settings, settings_of

_MODEL_FILES = ("config.json", "generation_config.json", "model*.safetensors", "model.safetensors.index.json", "adapter_*",
                "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "chat_template*",
                "*.model", "README.md")
_TRAINING_SETTINGS = ("output_dir", "train_file", "validation_file", "test_file", "adapter_name_or_path", "use_rslora", "exclude_modules",
                      "layers_to_transform", "modules_to_save", "resume_from_checkpoint", "optimizer_in_backward", "html", "trace",
                      "profile", "nproc_per_node")
# Sequences are stored without padding, so data collators that only add padding can be ignored.
_PADDING_COLLATORS = ("DataCollatorWithPadding", "DataCollatorForTokenClassification", "DefaultDataCollator",
                      "default_data_collator")


class Trainer:
    """Trains, evaluates and predicts with the program, in a child process whose memory is that of its plan.

    `model`: a folder, a name on the Hugging Face hub, or a model of transformers, whose weights are updated after train().
    `args`: TrainingArguments, those of transformers, or a dict. Data sets: datasets.Dataset, DataFrames of pandas or polars, tables
    of Arrow, dicts of columns, lists of dicts, or paths of files. `processing_class`: a tokenizer or its folder, by default the
    model's. `compute_metrics`: as in transformers' Trainer. `callbacks`: TrainerCallback of this package or of transformers.
    """

    def __init__(self, model: Any = None, args: Any = None, data_collator: Any = None, train_dataset: Any = None,
                 eval_dataset: Any = None, processing_class: Any = None,
                 compute_metrics: Optional[Callable[[EvalPrediction], Mapping[str, Any]]] = None,
                 callbacks: Optional[Sequence[Any]] = None) -> None:
        collator = getattr(data_collator, "__name__", type(data_collator).__name__)
        if data_collator is not None and collator not in _PADDING_COLLATORS:
            raise UsageError(f"data_collator: {collator} cannot run in the program; prepare the rows before, or omit it: sequences are "
                             "stored without padding, and masked language models draw their masks in the program (--mlm_probability)")
        if hasattr(model, "peft_config"):
            raise UsageError("model: this is a model of PEFT; pass its base model, and the adapter as settings (lora_r=8, or "
                             "adapter_name_or_path=FOLDER)")
        self.model = model
        self.args = TrainingArguments() if args is None else TrainingArguments(**args) if isinstance(args, Mapping) else args
        self.train_dataset = train_dataset
        self.eval_dataset = eval_dataset
        self.processing_class = processing_class
        self.compute_metrics = compute_metrics
        self.callbacks: List[Any] = [one() if isinstance(one, type) else one for one in callbacks or ()]
        self.state = TrainerState()
        self.control = TrainerControl()
        self.memory: Dict[str, Any] = {}
        """The contents of memory.json of the last training: the planned and the measured memory."""
        self._settings = settings_of(self.args)
        for name in ("do_train", "do_eval", "do_predict"):
            self._settings.pop(name, None)
        self._inputs = Inputs(model, processing_class, train_dataset, self._settings)
        self._plan: Optional[Plan] = None
        self._is_trained = False
        self._call("on_init_end")

    # --- the command lines of the program

    @property
    def _output_dir(self) -> str:
        return str(self._settings.get("output_dir", "trainer_output"))

    @property
    def _is_adapter(self) -> bool:
        return self._settings.get("adapter_name_or_path") is not None or any(name.startswith("lora_") for name in self._settings)

    def _current_words(self) -> List[str]:
        """Returns the command-line arguments that name the model in its current state: before or after the training."""
        if not self._is_trained:
            adapter = self._settings.get("adapter_name_or_path")
            return [*self._inputs.base_words(), *(["--adapter_name_or_path", str(adapter)] if adapter else [])]
        if self._is_adapter:
            return [*self._inputs.base_words(), "--adapter_name_or_path", self._output_dir]
        return ["--model_name_or_path", self._output_dir]

    def _write(self, data: Any, name: str) -> WrittenData:
        return self._inputs.write(data, name, self._output_dir if self._is_trained and not self._is_adapter else None)

    def _length_words(self, *data: WrittenData) -> List[str]:
        """Returns the setting that keeps rows of `input_ids` as long as they are, as Trainer does. By default, the program would truncate
        them like texts."""
        longest = max((one.longest_ids for one in data), default=0)
        is_longer = longest > known_settings()["max_seq_length"]["default"]
        return ["--max_seq_length", str(longest)] if is_longer and self._settings.get("max_seq_length") is None else []

    def _evaluates_in_training(self) -> bool:
        strategy = str(self._settings.get("eval_strategy") or "no")
        return self.eval_dataset is not None and (strategy != "no" or bool(self._settings.get("eval_on_start")))

    def _train_words(self) -> List[str]:
        words = ["train", *self._inputs.base_words()]
        written: List[WrittenData] = []
        if self.train_dataset is not None:
            written.append(self._write(self.train_dataset, "train.jsonl"))
            words += ["--train_file", written[-1].path]
        if self._evaluates_in_training():
            written.append(self._write(self.eval_dataset, "validation.jsonl"))
            words += ["--validation_file", written[-1].path]
        return words + as_words(self._settings) + self._length_words(*written)

    # --- public methods

    @property
    def plan(self) -> Plan:
        """The plan of train(). It is made from the data, but nothing is allocated. Raises UsageError and BadData."""
        if self._plan is None:
            run = Run([*self._train_words(), "--dry_run"], readable=self._inputs.readable)
            run.run(allowed=(0, 3))
            assert run.plan is not None
            self._plan = run.plan
            if isinstance(self.args, TrainingArguments):
                self.args.notes = list(run.plan.notes)
        return self._plan

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback() if isinstance(callback, type) else callback)

    def train(self, resume_from_checkpoint: Union[str, bool, None] = None) -> TrainOutput:
        """Trains the model. If the program fails, raises the exception for its exit code, such as WillNotFit or BadData, with the plan.

        KeyboardInterrupt lets the run finish its step and save a checkpoint, and then raises Interrupted.
        """
        words = self._train_words()
        if resume_from_checkpoint:
            words += ["--resume_from_checkpoint", str(resume_from_checkpoint)]
        asks_metrics = self.compute_metrics is not None and self._evaluates_in_training()
        if asks_metrics:
            words.append("--save_logits")
        replies = "steps" if self.callbacks else "evaluations" if asks_metrics else "none"
        processes = str(self._settings.get("nproc_per_node") or 1)
        if replies != "none" and processes.isdigit() and int(processes) > 1:
            raise UsageError("callbacks, and compute_metrics during training, work with one process only; omit them, or set nproc_per_node=1")
        self.state = TrainerState(num_train_epochs=float(given_setting(self.args, "num_train_epochs", 3.0)),
                                  train_batch_size=int(given_setting(self.args, "per_device_train_batch_size", 8)))
        self.control = TrainerControl()
        progress = Progress(bool(self._settings.get("disable_tqdm")))
        run = Run(words, lambda event: self._on_event(event, progress), replies, self._inputs.readable)
        run.run()
        self._plan = run.plan
        self._is_trained = True
        self._read_results()
        self._call("on_train_end")
        progress.update(self.state, is_last=True)
        metrics = run.results.get("train", {})
        return TrainOutput(self.state.global_step, metrics.get("train_loss", float("nan")), metrics)

    def evaluate(self, eval_dataset: Any = None, metric_key_prefix: str = "eval") -> Dict[str, float]:
        """Evaluates the current model. Returns the loss and the metrics."""
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        if data is None:
            raise UsageError("evaluate: there is no data; pass eval_dataset to Trainer or to evaluate()")
        output = self._evaluate(data, metric_key_prefix, logits=False)
        self._log({name: value for name, value in output.metrics.items() if name != "epoch"})
        self._call("on_evaluate", metrics=output.metrics)
        return output.metrics

    def predict(self, test_dataset: Any, metric_key_prefix: str = "test") -> PredictionOutput:
        """Returns the logits of every row, its label if there is one, and metrics if there are labels."""
        output = self._predict(test_dataset, metric_key_prefix)
        self._call("on_predict", metrics=output.metrics)
        return output

    def _predict(self, test_dataset: Any, metric_key_prefix: str) -> PredictionOutput:
        if self._has_labels(test_dataset):
            return self._evaluate(test_dataset, metric_key_prefix, logits=True)
        folder = self._inputs.new_path("predictions")
        written = self._write(test_dataset, "test.jsonl")
        words = ["--test_file", written.path, "--output_dir", folder, "--save_logits", *self._length_words(written)]
        run = Run(["predict", *self._current_words(), *as_words(self._settings_without_training()), *words],
                  readable=self._inputs.readable)
        run.run()
        logits = self._read_logits(folder, "predict")
        metrics = self._renamed(run.results.get("predict", {}), "predict", metric_key_prefix)
        shutil.rmtree(folder, ignore_errors=True)
        return PredictionOutput(logits, None, metrics)

    def _has_labels(self, data: Any) -> bool:
        if not isinstance(data, (str, os.PathLike)):
            return self._write(data, "test.jsonl").has_labels
        exit_code, output, _ = run_program(["inspect", "--json", os.fspath(data)])
        found = json.loads(output)["paths"][0] if exit_code == 0 else {}
        column = self._settings.get("label_column_name") or found.get("label_column")
        return column is not None and column in found.get("columns", ())

    def save_model(self, output_dir: Any = None) -> None:
        """Copies the current model into a folder, with its configuration and the files of its tokenizer."""
        target = self._output_dir if output_dir is None else os.fspath(output_dir)
        if not self._is_trained and not isinstance(self.model, (str, os.PathLike)):
            self.model.save_pretrained(target)
            return
        source = self._output_dir if self._is_trained else os.fspath(self.model)
        if not os.path.isdir(source):
            raise UsageError(f"save_model: the model '{source}' is no folder, and nothing was trained yet; call train() first")
        if os.path.exists(target) and os.path.samefile(source, target):
            return
        os.makedirs(target, exist_ok=True)
        for name in sorted(os.listdir(source)):
            if any(fnmatch.fnmatch(name, pattern) for pattern in _MODEL_FILES) and os.path.isfile(os.path.join(source, name)):
                shutil.copyfile(os.path.join(source, name), os.path.join(target, name))

    # --- events of a training

    def _call(self, method: str, **more: Any) -> None:
        for callback in self.callbacks:
            function = getattr(callback, method, None)
            if function is None:
                continue
            control = function(self.args, self.state, self.control, model=self.model, processing_class=self.processing_class, **more)
            if control is not None:
                self.control = control

    def _log(self, values: Dict[str, Any]) -> None:
        logs = {**values, "epoch": self.state.epoch}
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self._call("on_log", logs=logs)

    def _requests(self) -> Event:
        control = self.control
        if not hasattr(control, "take_requests"):  # a callback returned the TrainerControl of transformers
            known = TrainerControl(control.should_training_stop, False, control.should_save, control.should_evaluate, control.should_log)
            control = self.control = known
        if control.should_evaluate and not self._evaluates_in_training():
            warn("a callback set should_evaluate, but the run has no data to evaluate; pass eval_dataset and an eval_strategy other than no")
        return {"control": control.take_requests()}

    def _on_event(self, event: Event, progress: Progress) -> Optional[Event]:
        kind = event["event"]
        if kind == "begin":
            self.state.compute_steps(self.args, event["max_steps"])
            self._call("on_train_begin")
            self._call("on_epoch_begin")
            self._call("on_step_begin")
        elif kind == "step":
            return self._on_step(event, progress)
        elif kind == "log":
            self.state.global_step, self.state.epoch = event["step"], event["epoch"]
            self._log({name: float("nan") if value is None else value for name, value in event["values"].items()})
            progress.update(self.state)
        elif kind == "progress":
            progress.update(self.state, f"evaluating {event['rows']}/{event['num_rows']}")
        elif kind == "metrics" and self.compute_metrics is not None:
            return {"metrics": self._own_metrics(self._prediction_of(event))}
        elif kind == "evaluate":
            self._call("on_evaluate", metrics={**event["metrics"], "epoch": event["epoch"]})
            self._update_best(event)
            return self._requests()
        elif kind == "save":
            self._call("on_save")
        return None

    def _on_step(self, event: Event, progress: Progress) -> Event:
        before = self.state.epoch
        self.state.global_step, self.state.epoch, self.state.max_steps = event["step"], event["epoch"], event["max_steps"]
        self._call("on_step_end")
        is_last = event["step"] >= event["max_steps"]
        ends_epoch = int(event["epoch"] + 1e-9) > int(before + 1e-9)
        if ends_epoch or is_last:
            self._call("on_epoch_end")
        if self.control.should_epoch_stop:
            raise UsageError("a callback set should_epoch_stop, but the program ends an epoch only with the training; set "
                             "should_training_stop")
        if not is_last:
            if ends_epoch:
                self._call("on_epoch_begin")
            self._call("on_step_begin")
        progress.update(self.state, f"loss {event['loss']:.4g}" if event["loss"] is not None else "")
        return self._requests()

    def _update_best(self, event: Event) -> None:
        name = given_setting(self.args, "metric_for_best_model") or ("loss" if self._settings.get("load_best_model_at_end") else None)
        if not name:
            return
        key = name if name.startswith("eval_") else "eval_" + name
        greater = given_setting(self.args, "greater_is_better")
        is_greater_better = not key.endswith("loss") if greater is None else bool(greater)
        value = event["metrics"].get(key)
        best = self.state.best_metric
        if value is not None and (best is None or (value > best if is_greater_better else value < best)):
            self.state.best_metric = value
            self.state.best_global_step = event["step"]

    def _read_results(self) -> None:
        path = program_output(self._output_dir, "trainer_state.json")
        if path is not None:
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
            self.state.best_metric = saved.get("best_metric")
            self.state.best_model_checkpoint = saved.get("best_model_checkpoint")
            self.state.global_step = saved.get("global_step", self.state.global_step)
        path = program_output(self._output_dir, "memory.json")
        if path is not None:
            with open(path, encoding="utf-8") as file:
                self.memory = json.load(file)
        # These files were written for compute_metrics, which has read them. They are removed, unless --save_logits asks for them.
        is_asked = str(self._settings.get("save_logits", False)).lower() in ("true", "1")
        names = ("eval_logits.npy", "eval_labels.npy", "eval_starts.npy")
        for name in names if self.compute_metrics is not None and not is_asked else ():
            path = program_output(self._output_dir, name)
            if path is not None:
                os.remove(path)
        if hasattr(self.model, "load_state_dict") and not self._is_adapter:
            trained = type(self.model).from_pretrained(self._output_dir)
            self.model.load_state_dict(trained.state_dict())
            self.model.config = trained.config

    # --- evaluations and predictions

    def _settings_without_training(self) -> Dict[str, Any]:
        """Returns the settings for an evaluation or a prediction: without those that only training uses or that create an adapter."""
        left_out = _TRAINING_SETTINGS if self._is_trained else (*_TRAINING_SETTINGS, "load_in_4bit", "load_in_8bit")
        return {name: value for name, value in self._settings.items() if name not in left_out and not name.startswith("lora_")}

    @staticmethod
    def _prediction_of(event: Mapping[str, Any]) -> EvalPrediction:
        logits, labels = read_npy(event["logits"]), read_npy(event["labels"])
        if "starts" in event:
            starts = read_npy(event["starts"])
            logits, labels = padded(logits, starts), padded(labels, starts)
        elif not isinstance(labels, list) and labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        return EvalPrediction(logits, labels)

    @staticmethod
    def _read_logits(folder: str, split: str) -> Any:
        path = program_output(folder, f"{split}_logits.npy")
        starts = program_output(folder, f"{split}_starts.npy")
        if path is None:
            return None
        return read_npy(path) if starts is None else padded(read_npy(path), read_npy(starts))

    def _own_metrics(self, prediction: EvalPrediction) -> Dict[str, float]:
        assert self.compute_metrics is not None
        metrics = self.compute_metrics(prediction)
        if not isinstance(metrics, Mapping):
            raise UsageError(f"compute_metrics returned an object of type {type(metrics).__name__}; it has to return a dict of numbers "
                             "by name")
        result: Dict[str, float] = {}
        for name, value in metrics.items():
            try:
                result[name[len("eval_"):] if name.startswith("eval_") else name] = float(value)
            except (TypeError, ValueError):
                raise UsageError(f"compute_metrics returned {value!r} for '{name}'; it has to return numbers") from None
        return result

    @staticmethod
    def _renamed(metrics: Mapping[str, float], before: str, after: str) -> Dict[str, float]:
        return {after + name[len(before):] if name.startswith(before + "_") else name: value for name, value in metrics.items()}

    def _evaluate(self, data: Any, prefix: str, logits: bool) -> PredictionOutput:
        folder = self._inputs.new_path("evaluation")
        written = self._write(data, "validation.jsonl")
        words = ["--validation_file", written.path, "--output_dir", folder, *self._length_words(written)]
        asks = self.compute_metrics is not None
        if logits or asks:
            words.append("--save_logits")
        found: List[EvalPrediction] = []

        def handle(event: Event) -> Optional[Event]:
            if event["event"] != "metrics":
                return None
            found.append(self._prediction_of(event))
            return {"metrics": self._own_metrics(found[-1])} if asks else None

        run = Run(["eval", *self._current_words(), *as_words(self._settings_without_training()), *words], handle,
                  "evaluations" if asks else "none", self._inputs.readable)
        run.run()
        if asks and not found:
            raise UsageError("compute_metrics: the data has no labels, so that there is nothing to compare with; add the column "
                             f"'{self._inputs.label_column}', or omit compute_metrics")
        metrics = self._renamed(run.results.get("eval", {}), "eval", prefix)
        if self._is_trained:
            metrics["epoch"] = self.state.epoch
        shutil.rmtree(folder, ignore_errors=True)
        prediction = found[-1] if found else EvalPrediction(None, None)
        return PredictionOutput(prediction.predictions, prediction.label_ids, metrics)


__all__ = ["Trainer", "TrainerCallback"]
