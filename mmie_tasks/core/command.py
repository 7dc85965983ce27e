"""Commands that a message tells the user to run."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def as_called(line: str) -> str:
    """The command line as the user can type it: a call of ``mmie-tasks`` or ``lmms-eval``.

    The program has its path, as the running program was called, unless a shell finds it without
    one. It is next to the running program or, after ``python -m``, next to the interpreter.

    >>> as_called("no-such-program RUN")
    'no-such-program RUN'
    """
    program, _, arguments = line.partition(" ")
    callers = filter(None, (sys.argv[0], sys.executable))  # an interactive session has no program
    neighbours = [Path(caller).with_name(program) for caller in callers]
    path = next(filter(Path.is_file, neighbours), None)
    found = shutil.which(program)
    if path is None or (found and path.samefile(found)):
        return line
    return f"{shlex.quote(str(path))} {arguments}".rstrip()
