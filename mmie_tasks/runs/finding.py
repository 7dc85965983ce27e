"""Which files belong to a run: the logs that lmms-eval wrote below its ``--output_path``.

``<output_path>/<model>/<date>_samples_<task>.jsonl``, and ``<date>_results.json`` beside it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.errors import AnswersUnusable, SettingWrong

_LOG = re.compile(r"(?P<date>.*?)_?samples_(?P<task>.+)\.jsonl")
_RESULTS = re.compile(r"(?P<date>.*?)_?results\.json")
HINT = "name the folder that `--output_path` named, of a run with `--log_samples`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A sample log, by its name.

    Attributes:
        path: The file.
        date: As the runner wrote it; later ones sort later.
        task: The task's name in lmms-eval.
    """

    path: Path
    date: str
    task: str

    @property
    def results(self) -> Path:
        """The results file of the same evaluation."""
        return self.path.with_name(f"{self.date}_results.json" if self.date else "results.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The logs of one run: of each task the newest.

    Attributes:
        name: What the user calls it, or the tested model's folder.
        folder: Where the logs are.
        logs: By task, in alphabetical order.
        older: How many logs of the same tasks are older and were left alone.
    """

    name: str
    folder: Path
    logs: tuple[Log, ...]
    older: int = 0


def find(word: str) -> list[Found]:
    """The runs that a word of the command line names: ``PATH``, or ``NAME=PATH``.

    A path is a folder that holds runs at any depth, a results file, or one sample log.

    Raises:
        AnswersUnusable: There is nothing, or no log of samples.
    """
    try:
        name, path = _split(word)
        if not path.exists():
            raise AnswersUnusable(f"There is no `{path}`.", hint=HINT)
        found = [_newest(folder, logs) for folder, logs in sorted(_by_folder(path).items())]
    except (OSError, RuntimeError) as error:  # no right to look, too long a name, no such `~user`
        raise AnswersUnusable(f"`{word[:200]}` cannot be looked at: {error}.", hint=HINT) from error
    if not found:
        raise AnswersUnusable(f"`{path}` holds no log of samples.", hint=HINT)
    if name and len(found) > 1:
        listed = ", ".join(f"`{each.folder}`" for each in found)
        raise SettingWrong(f"`{name}` names {len(found)} runs: {listed}.", hint="name one of them")
    return [Found(name=name or f.name, folder=f.folder, logs=f.logs, older=f.older) for f in found]


def _split(word: str) -> tuple[str, Path]:
    name, equals, path = word.partition("=")
    if not equals or Path(word).expanduser().exists():
        return "", Path(word).expanduser()
    if not path:
        raise AnswersUnusable(f"`{word}` has no path behind `=`.", hint=HINT)
    return name.strip(), Path(path).expanduser()


def _by_folder(path: Path) -> dict[Path, list[Log]]:
    files = sorted(path.rglob("*samples_*.jsonl")) if path.is_dir() else [path]
    logs: list[Log | None]
    if path.is_file() and (match := _RESULTS.fullmatch(path.name)):
        beside = [log_of(each) for each in sorted(path.parent.glob("*samples_*.jsonl"))]
        logs = [log for log in beside if log and log.date == match["date"]]
    else:
        logs = [log_of(each) for each in files]
    found: dict[Path, list[Log]] = defaultdict(list)
    for log in logs:
        if log is not None:
            found[log.path.parent].append(log)
    return dict(found)


def log_of(path: Path) -> Log | None:
    """A file's date and task by its name; None where it is not named like a sample log.

    >>> log_of(Path("out/m/20261121_101500_samples_mmie_sa.jsonl")).task
    'mmie_sa'
    """
    match = _LOG.fullmatch(path.name)
    return match and Log(path=path, date=match["date"], task=match["task"])


def _newest(folder: Path, logs: Sequence[Log]) -> Found:
    newest: dict[str, Log] = {}
    for log in sorted(logs, key=lambda each: (each.task, each.date)):
        newest[log.task] = log
    chosen = tuple(newest.values())
    name = folder.resolve().name  # of `.`, too
    return Found(name=name, folder=folder, logs=chosen, older=len(logs) - len(chosen))
