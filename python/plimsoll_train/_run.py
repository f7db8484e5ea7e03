"""Runs the program as a child and receives its events. docs/PYTHON.md describes the events."""

from __future__ import annotations

import atexit
import collections
import json
import math
import os
import signal
import socket
import subprocess
import tempfile
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ._errors import Interrupted, PlimsollError, error_of, warn
from ._plan import Plan, error_in, remarks_of
from ._program import program_path
from ._settings import without_token

Event = Dict[str, Any]
# A function that receives an event of the program and returns the reply to it, or None if the event needs none.
Handler = Callable[[Event], Optional[Event]]

_running: List["Tuple[subprocess.Popen[bytes], socket.socket]"] = []


def _finite(value: Any) -> Any:
    """Replaces numbers that are not finite by None, because JSON cannot represent them."""
    if isinstance(value, dict):
        return {name: _finite(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _stop(child: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
    """Asks a run to save a checkpoint and end. Closes the socket first, because the run may wait for a reply that will not come."""
    # shutdown() also closes the connection in other processes that inherited the socket; close() alone would not.
    try:
        ours.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    ours.close()
    if child.poll() is None:
        child.terminate()
        child.wait()


def _stop_children() -> None:
    """Ends all runs when this process ends, including those that a thread has started and not waited for."""
    for child, ours in list(_running):
        _stop(child, ours)


atexit.register(_stop_children)


class Run:
    """A run of the program. run() sets the members `plan`, `results` (by split), `saved` (checkpoints), `label_names` and `messages`.

    `readable` is applied to the texts of the program before they are shown, to replace names of temporary files. Warnings are shown
    when they arrive.
    """

    def __init__(self, words: List[str], handle: Optional[Handler] = None, replies: str = "none",
                 readable: Callable[[str], str] = str) -> None:
        self._words = words
        self._handle = handle
        self._replies = replies
        self._readable = readable
        self.plan: Optional[Plan] = None
        self.results: Dict[str, Dict[str, float]] = {}
        self.saved: List[str] = []
        self.label_names: List[str] = []
        self.messages = ""
        self._end: Event = {}

    def run(self, allowed: tuple[int, ...] = (0,)) -> int:
        """Runs the program to its end and returns its exit code. Raises the matching exception if the code is not one of those allowed.

        KeyboardInterrupt lets the run finish its step and save a checkpoint, and then raises Interrupted. If the handler raises, the
        run is stopped in the same way, and the exception of the handler is raised.
        """
        ours, theirs = socket.socketpair()
        failure: Optional[BaseException] = None
        with tempfile.TemporaryFile() as log, ours:
            with theirs:
                child = self._start(theirs, log)
            _running.append((child, ours))
            try:
                failure = self._follow(child, ours)
                exit_code = child.wait()
            finally:
                _stop(child, ours)
                _running.remove((child, ours))
            log.seek(0)
            self.messages = self._readable(log.read().decode("utf-8", "replace"))
        if self.plan is not None:
            self.plan.warnings = list(remarks_of(self.messages, "warning"))
            self.plan.notes = list(remarks_of(self.messages, "note"))
        error: Optional[PlimsollError] = None
        if exit_code not in (6, *allowed):
            error = error_of(exit_code, self._readable(self._end.get("message") or "") or error_in(self.messages), self.plan)
        if failure is not None and not isinstance(failure, KeyboardInterrupt):
            raise failure
        if exit_code == 6 or failure is not None:
            raise self._interrupted(exit_code, error) from error
        if error is not None:
            raise error
        return exit_code

    def _interrupted(self, exit_code: int, error: Optional[PlimsollError]) -> Interrupted:
        checkpoint = self.saved[-1] if self.saved else ""
        text = "the run was interrupted: "
        if error is not None:
            text = f"the run was interrupted, and ended with exit code {exit_code}: {error.message}; "
        elif exit_code == 0:
            text = "the run was complete before it could be interrupted: "
        text += f"it saved {checkpoint}; resume_from_checkpoint=True continues it" if checkpoint else "it saved no checkpoint"
        return Interrupted(text, self.plan, checkpoint, exit_code)

    def _start(self, theirs: socket.socket, log: Any) -> "subprocess.Popen[bytes]":
        words = [program_path(), *self._words, "--event_fd", str(theirs.fileno())]
        if self._replies != "none":
            words += ["--event_replies", self._replies]
        # The program runs in a new session, so that a Ctrl-C of the terminal reaches only this process and is not
        # received twice.
        words, environment = without_token(words)
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                pass_fds=(theirs.fileno(),), env=environment)

    def _follow(self, child: "subprocess.Popen[bytes]", ours: socket.socket) -> Optional[BaseException]:
        """Handles events until the program closes the socket. Returns the first exception of the handler, or a KeyboardInterrupt."""
        failure: Optional[BaseException] = None
        received = b""
        lines: Deque[bytes] = collections.deque()
        while True:
            try:
                while not lines:
                    part = ours.recv(1 << 16)
                    if not part:
                        return failure
                    *complete, received = (received + part).split(b"\n")
                    lines.extend(complete)
            except ConnectionError:
                return failure
            except KeyboardInterrupt as error:
                # The first signal let the program save a checkpoint. A second signal stops it at once.
                child.send_signal(signal.SIGINT)
                failure = failure or error
                continue
            event = json.loads(lines.popleft())
            reply: Optional[Event] = None
            try:
                reply = self._take(event, failure is None)
            except (KeyboardInterrupt, Exception) as error:  # the run then saves and ends, as after a KeyboardInterrupt
                child.send_signal(signal.SIGINT)
                failure = failure or error
            # After a signal the program no longer waits for a reply, and must not get one that lacks the handler's
            # metrics.
            if "id" in event and failure is None:
                try:
                    ours.sendall(json.dumps(_finite({**(reply or {}), "id": event["id"]}), allow_nan=False).encode() + b"\n")
                except ConnectionError:
                    pass

    def _take(self, event: Event, calls_handler: bool) -> Optional[Event]:
        kind = event["event"]
        if kind == "plan":
            self.plan = Plan(event["plan"], event["refusal"])
        elif kind == "results":
            self.results[event["split"]] = {name: float("nan") if value is None else value
                                            for name, value in event["metrics"].items()}
        elif kind == "save":
            self.saved.append(event["path"])
        elif kind == "labels":
            self.label_names = event["names"]
        elif kind == "end":
            self._end = event
        elif kind == "warning":
            warn(self._readable(event["text"]))
        return self._handle(event) if self._handle is not None and calls_handler else None


def program_output(folder: str, name: str) -> Optional[str]:
    """Returns the path of a file that a run has written, or None."""
    path = os.path.join(folder, name)
    return path if os.path.exists(path) else None
