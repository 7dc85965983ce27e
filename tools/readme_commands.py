"""Runs README's commands in order, and compares what they print with what README shows.

Commands are in blocks without a language, in the first column of the table and in the text as
`make NAME`. A block ``text`` shows some lines of what the command before it prints; ``...`` ends a
line early. Options are passed to make: ``INSTALL=wheel``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
MMIE = "examples/mmie"
A, B = "A=out/results/model-a", "B=out/results/model-b"

RUN: Mapping[str, str] = {
    "make demo": "make demo",
    "mmie-tasks score answers.jsonl": f"python examples/interleaved/servers.py {BIN}/mmie-tasks "
    f"score {MMIE}/answers --model answers --tasks mmie --judge openai:scripted-judge,"
    f"base_url={{url}} --judge_args prompts={MMIE}/prompts.json -o out/readme",
    "mmie-tasks table out/answers": "mmie-tasks table out/readme --columns paper --format latex",
    "make results": "make results",
    "mmie-tasks report RUN": f"mmie-tasks report {A} {B} -o out/readme.html",
    "mmie-tasks table RUN": f"mmie-tasks table {A} {B} --published",
    "mmie-tasks compare A B": f"mmie-tasks compare {A} {B}",
    "mmie-tasks agreement RUN": "mmie-tasks agreement out/results/model-a "
    "out/results/other-judge people=examples/results/people.csv --task mmie",
    "mmie-tasks export FORMAT": "mmie-tasks export opening out/demo -o out/readme-opening",
}
"""The beginning of a command of README, to the command that stands for it here."""

NOT_RUN: Mapping[str, str] = {
    "export MMIE_DATA": "is set here",
    "MODEL=": "is part of the next",
    "EVAL=": "is part of the next",
    "$EVAL": "needs weights and data",
    "mmie-tasks rejudge": "needs a judge",
}
"""The beginning of a command of README, to why it is not run."""

PIECES = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```$|^\| \[`(?P<cell>[^`]+)`|`(?P<make>make \w+)`",
    re.MULTILINE | re.DOTALL,
)


def run(command: str, make_options: list[str]) -> str:
    """The output of a command; ends the process if it fails."""
    program, *words = command.split()
    words = [program, *words, *make_options] if program == "make" else [str(BIN / program), *words]
    ours = {"MMIE_DATA": f"{MMIE}/data", "MMIE_TASKS_CACHE": "out/readme-cache"}
    done = subprocess.run(  # noqa: S603 - ours
        words, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **ours}
    )
    if done.returncode:
        sys.exit(f"`{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def missing_lines(example: str, output: str) -> list[str]:
    """The lines of an example that an output does not have."""
    shown = [line.partition("...")[0] for line in example.splitlines()]
    printed = [" ".join(line.split()) for line in output.splitlines()]
    return [line for line in shown if not any(" ".join(line.split()) in one for one in printed)]


def output_of(command: str, make_options: list[str]) -> str:
    """The output of a command of README; empty if it is not run."""
    for start, instead in RUN.items():
        if command.startswith(start):
            sys.stderr.write(f"{command}\n")
            return run(instead, make_options)
    for start, why in NOT_RUN.items():
        if command.startswith(start):
            sys.stderr.write(f"not run, {why}: {command}\n")
            return ""
    sys.exit(f"`{command}` is in README and not in {Path(__file__).name}")


def main() -> None:
    """Run every command once."""
    outputs: dict[str, str] = {}
    command = ""
    for piece in PIECES.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        if language := piece["language"]:
            missing = missing_lines(piece["block"], outputs[command]) if language == "text" else []
            if missing:
                sys.exit("\n".join([f"`{command}` does not print:", *missing]))
            continue
        block = (piece["block"] or piece["cell"] or piece["make"]).replace("\\\n", "")
        for line in block.splitlines():
            command = line.partition("  #")[0].strip()
            if command not in outputs:
                outputs[command] = output_of(command, sys.argv[1:])


if __name__ == "__main__":
    main()
