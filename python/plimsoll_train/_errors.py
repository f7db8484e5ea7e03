"""One exception class per exit code of the program."""

from __future__ import annotations

import os
import re
import signal
import sys
import types
import warnings
from typing import TYPE_CHECKING, List, Optional

if TYPE_CHECKING:
    from ._plan import Plan


class PlimsollError(RuntimeError):
    """A run failed. `plan` is the plan of the run if it was made before the failure."""

    exit_code: int = 1

    def __init__(self, message: str, plan: Optional[Plan] = None) -> None:
        super().__init__(message)
        self.message = message
        self.plan = plan


class PlimsollWarning(UserWarning):
    """A warning of a run, such as that texts were truncated. `warnings.filterwarnings("ignore", category=PlimsollWarning)` hides them."""


def warn(text: str) -> None:
    """Shows a warning of a run with the line of the caller of this package."""
    folder = os.path.dirname(os.path.abspath(__file__))
    frame: Optional[types.FrameType] = sys._getframe()
    level = 1
    while frame is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == folder:
        frame = frame.f_back
        level += 1
    warnings.warn(text, PlimsollWarning, stacklevel=level)


class InternalError(PlimsollError):
    """A bug in Plimsoll."""

    exit_code = 1


class UsageError(PlimsollError, ValueError):
    """An argument is wrong, or two arguments contradict each other."""

    exit_code = 2


class WillNotFit(PlimsollError, MemoryError):
    """The plan needs more memory than the run may use. Nothing was allocated. The message lists changes that need less memory."""

    exit_code = 3

    @property
    def fitting(self) -> List[List[str]]:
        """For each change of arguments with which the run would fit, these arguments. The order is that of the message."""
        found: List[List[str]] = []
        _, _, rest = self.message.partition("\n  fits with")
        for line in rest.splitlines()[1:]:
            match = re.match(r"    (--.+?)\s{2,}[\d.]+ [KMG]iB", line)
            if match is None:
                break
            found.append(match.group(1).split())
        return found

    @property
    def cheapest(self) -> Optional[List[str]]:
        """The first element of `fitting`, or None. Changes that keep the results of training are listed first, fastest first."""
        return self.fitting[0] if self.fitting else None


class BadData(PlimsollError, ValueError):
    """A data file, a tokenizer, a model or a checkpoint is invalid. The message names the file and, if known, the line."""

    exit_code = 4


class NotFinite(PlimsollError, ArithmeticError):
    """A loss or a gradient is not finite."""

    exit_code = 5


class Interrupted(PlimsollError, KeyboardInterrupt):
    """The run was interrupted. `checkpoint` is the folder from which it can be resumed.

    `exit_code` is that of the program: 6, or 0 if the run was complete before it could be interrupted. If the run
    failed after it was asked to stop, `exit_code` is the code of that failure, and `__cause__` is the exception for
    that code.
    """

    exit_code = 6

    def __init__(self, message: str, plan: Optional[Plan] = None, checkpoint: str = "", exit_code: int = 6) -> None:
        super().__init__(message, plan)
        self.checkpoint = checkpoint
        self.exit_code = exit_code


class DeviceError(PlimsollError):
    """A device, the operating system or another process of the run failed, or the program was killed."""

    exit_code = 7


_CLASSES = {kind.exit_code: kind
            for kind in (InternalError, UsageError, WillNotFit, BadData, NotFinite, Interrupted, DeviceError)}


def error_of(exit_code: int, message: str, plan: Optional[Plan] = None) -> PlimsollError:
    """Returns the exception for an exit code of the program. Negative codes are signals, as in subprocess."""
    if exit_code < 0 or exit_code > 128:
        number = -exit_code if exit_code < 0 else exit_code - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        text = f"the program was ended by {name} before the run was complete"
        if name == "SIGKILL":
            text += "; the system kills programs that exceed the memory of the machine or of the container"
        return DeviceError(text + (f"; its last message was: {message}" if message else ""), plan)
    return _CLASSES.get(exit_code, InternalError)(message or f"the program ended with exit code {exit_code}", plan)
