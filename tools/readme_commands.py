"""Runs README's commands in order, and compares what they print with what README shows.

A command of README is in `RUN` with the command that stands for it here, or in `NOT_RUN` with what
it needs. A new one in neither is an error. Options are passed to make: ``INSTALL=wheel``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MMIE_TASKS = ROOT / ".venv" / "bin" / "mmie-tasks"
A, B = "A=out/results/model-a", "B=out/results/model-b"

RUN: Mapping[str, str] = {
    "make demo": "make demo",
    ".venv/bin/mmie-tasks report out/demo -o report.html": "mmie-tasks report out/demo "
    "-o out/readme.html",
    "make results": "make results",
    "mmie-tasks report RUN... -o report.html": f"mmie-tasks report {A} {B} -o out/readme.html",
    "mmie-tasks table RUN... --published": f"mmie-tasks table {A} {B} --published",
    "mmie-tasks compare A B": f"mmie-tasks compare {A} {B}",
    "mmie-tasks agreement RUN_OR_CSV...": "mmie-tasks agreement out/results/model-a "
    "out/results/other-judge people=examples/results/people.csv --task mmie",
    "mmie-tasks export FORMAT RUN": "mmie-tasks export opening out/demo -o out/readme-opening",
}
"""Command of README to the command that is run."""

NOT_RUN: Mapping[str, str] = {
    "make test": "six minutes; CI runs it before",
    "lmms-eval $MODEL": "weights and data",
    "hf auth login": "an account",
    "mmie-tasks eval ...": "a judge",
    "mmie-tasks score": "a judge",
    "mmie-tasks rejudge": "a judge",
}
"""The beginning of a command of README, to what it needs."""


def commands(readme: str) -> Iterator[str]:
    """The commands in README's blocks, its table and the sentence on `make`, in order."""
    pattern = r"^((?:make|mmie-tasks|\.venv/bin/mmie-tasks|lmms-eval|hf) [^#\n]+)"
    pattern += r"|^\| \[`(mmie-tasks [^`]+)`|`(make (?:results|test))`"
    for match in re.finditer(pattern, readme, re.MULTILINE):
        yield next(filter(None, match.groups())).strip()


def run(command: str, make_options: list[str]) -> str:
    """The output of a command; ends the process if it fails."""
    words = command.split()
    words = [*words, *make_options] if words[0] == "make" else [str(MMIE_TASKS), *words[1:]]
    done = subprocess.run(  # noqa: S603 - ours
        words, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def missing_lines(readme: str, output: str) -> list[str]:
    """The lines of README's example output that are not in an output; `...` ends a line early."""
    example = readme.partition("```text\n")[2].partition("```")[0]
    shown = [line.partition("...")[0].rstrip() for line in example.splitlines()]
    printed = [" ".join(line.split()) for line in output.splitlines()]
    return [line for line in shown if not any(" ".join(line.split()) in one for one in printed)]


def main() -> None:
    """Run every command once."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in dict.fromkeys(commands(readme)):
        if command in RUN:
            output = run(RUN[command], sys.argv[1:])
            sys.stderr.write(f"ok       {RUN[command]}\n")
            if command == "make demo" and (missing := missing_lines(readme, output)):
                sys.exit("\n".join(["`make demo` does not print:", *missing]))
        elif reasons := [why for start, why in NOT_RUN.items() if command.startswith(start)]:
            sys.stderr.write(f"not run  {command}: needs {reasons[0]}\n")
        else:
            sys.exit(f"`{command}` is in README and not in {Path(__file__).name}")


if __name__ == "__main__":
    main()
