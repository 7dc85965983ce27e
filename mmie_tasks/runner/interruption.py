"""Ends a run of the command line on Ctrl-C: one line, status 130, and no waiting for judges."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from mmie_tasks.core.log import is_first_process
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.runner.answer_files import RunOutput

_STATUS = 130
"""Exit status after Ctrl-C: 128 plus the number of the signal."""

_GRACE_S = 1.5  # to cancel requests and close files before the process is ended


class _JudgingStopped(KeyboardInterrupt):
    """Ctrl-C while answers are judged; the way to resume has been printed."""


@contextmanager
def exits_on_ctrl_c() -> Iterator[None]:
    """End the process on a KeyboardInterrupt, without a traceback.

    Exit handlers, such as that of Weights & Biases, are called as usual. Python would then delete
    every imported module, which takes two seconds of CPU time with torch; this is left out.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if not isinstance(error, _JudgingStopped):
            _print("Stopped by Ctrl-C.")
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        _end()


@contextmanager
def judging_stops_on_ctrl_c(
    session: JudgingSession, output: RunOutput
) -> Iterator[Callable[[], None]]:
    """Yield a function; once it is called, Ctrl-C stops the judges and ends the process.

    A judge or an exit handler that takes longer than `_GRACE_S` is not waited for, and a second
    Ctrl-C ends the process at once. Outside the main thread, which no signal reaches, nothing
    changes.
    """
    stop = functools.partial(_stop, session, output)
    before = signal.getsignal(signal.SIGINT)

    def handle_ctrl_c() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, stop)

    try:
        yield handle_ctrl_c
    finally:
        if signal.getsignal(signal.SIGINT) is stop:
            signal.signal(signal.SIGINT, before)


def _stop(
    session: JudgingSession, output: RunOutput, _number: int, _frame: FrameType | None
) -> NoReturn:
    signal.signal(signal.SIGINT, _end)
    timer = threading.Timer(_GRACE_S, _end)
    timer.daemon = True
    timer.start()
    stored = session.stop()
    next_step = "The model's answers are not saved: there is no `--output_path`."
    if output.resume_hint:
        next_step = f"To go on: the same command with {output.resume_hint}"
    _print(f"mmie-tasks: stopped; {stored}. {next_step}")
    raise _JudgingStopped


def _print(line: str) -> None:
    if is_first_process(os.environ):
        sys.stderr.write(f"\n{line}\n")


def _end(*_signal: object) -> NoReturn:
    os._exit(_STATUS)
