"""Plimsoll from Python: plans of memory, and a Trainer with the interface of Hugging Face's.

    import plimsoll_train as pl

    plan = pl.plan("bert-large-uncased", device="l4", bf16=True)
    trainer = pl.Trainer(model="minilm", args=pl.TrainingArguments("runs/mine", num_train_epochs=3), train_dataset=rows)
    trainer.train()

Only Python's standard library is needed. NumPy, pandas, polars, pyarrow, datasets and transformers are used if they are installed.
"""

from ._callbacks import EvalPrediction, PredictionOutput, TrainerCallback, TrainerControl, TrainerState, TrainOutput
from ._errors import (BadData, DeviceError, InternalError, Interrupted, NotFinite, PlimsollError, PlimsollWarning, UsageError,
                      WillNotFit)
from ._plan import FitResult, Plan, fit, plan
from ._program import __version__, program_path
from ._settings import TrainingArguments
from ._trainer import Trainer

__all__ = [
    "BadData", "DeviceError", "EvalPrediction", "FitResult", "InternalError", "Interrupted", "NotFinite", "Plan", "PlimsollError",
    "PlimsollWarning", "PredictionOutput", "TrainOutput", "Trainer", "TrainerCallback", "TrainerControl", "TrainerState", "TrainingArguments",
    "UsageError", "WillNotFit", "__version__", "fit", "plan", "program_path",
]
