"""How the process of an interrupted run ends."""

from __future__ import annotations

import subprocess
import sys

INTERRUPTED = """
import atexit

from mmie_tasks.runner.interruption import exits_on_ctrl_c

class Library:
    def __del__(self):
        print("deleted")

library = Library()
atexit.register(print, "first registered")
with exits_on_ctrl_c():
    atexit.register(print, "last registered")
    raise KeyboardInterrupt
"""


def test_an_interrupted_run_calls_exit_handlers_and_does_not_delete_modules() -> None:
    process = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert process.returncode == 130, process.stderr
    assert process.stdout.splitlines() == ["last registered", "first registered"]
    assert process.stderr.strip() == "Stopped by Ctrl-C."
