"""What in a signature moves a score, and what two sets of signatures disagree in."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mmie_tasks.errors import SettingWrong
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.tables import table
from mmie_tasks.verdict import Scored

HARMLESS = frozenset({"pkg", "replayed"})
"""Keys that move no score: a release that moves one raises the task's version, and a replayed reply
is the very reply that the judge once gave."""

_TASK = re.compile(r"(?P<scoring>.+@\d+)-\w+")  # name@N-X: X is the interface


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key of the signatures in which two runs are not one.

    Attributes:
        key: ``judge``, ``model``, ``prompt``, ...
        a: The values it has in the first run, sorted; ``none`` where a signature lacks it.
        b: The same of the second. The same values as in `a` where either run is a mixture.
    """

    key: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def parts(signature: str) -> dict[str, str]:
    """Key to value, of a signature; of the task's version only what moves a score.

    >>> parts("judge:openai|t:0|task:mmie@1-A|data:sha256:12")
    {'judge': 'openai', 't': '0', 'task': 'mmie@1', 'data': 'sha256:12'}
    """
    found: dict[str, list[str]] = {}
    for word in filter(None, signature.split("|")):
        key, _, value = word.partition(":")
        version = _TASK.fullmatch(value) if key == "task" else None
        found.setdefault(key, []).append(version["scoring"] if version else value)
    return {key: ", ".join(values) for key, values in found.items()}


def differences(a: Iterable[str], b: Iterable[str]) -> tuple[Difference, ...]:
    """What moves a score and is not the same throughout two sets of signatures.

    A run that is a mixture of two judges is not one run: that counts as a difference, also where
    the other run is the same mixture.

    Args:
        a: The signatures of one run.
        b: Those of the other.

    Returns:
        In the order in which the signatures name the keys; empty where they can be compared.

    >>> differences(["t:0|pkg:0.1.0"], ["t:1|pkg:0.2.0"])
    (Difference(key='t', a=('0',), b=('1',)),)
    """
    ours, theirs = [parts(each) for each in a], [parts(each) for each in b]
    keys = dict.fromkeys(key for each in (*ours, *theirs) for key in each)
    found = []
    for key in keys:
        of_a, of_b = _values(key, ours), _values(key, theirs)
        if key not in HARMLESS and (of_a != of_b or len(of_a) > 1):
            found.append(Difference(key=key, a=of_a, b=of_b))
    return tuple(found)


def mixed(signatures: Iterable[str]) -> tuple[str, ...]:
    """The keys that move a score and are not the same in all of these signatures.

    >>> mixed(["judge:a|t:0|pkg:1", "judge:b|t:0|pkg:2"])
    ('judge',)
    """
    known = list(signatures)
    return tuple(each.key for each in differences(known, known))


def _values(key: str, signatures: Iterable[dict[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({each.get(key, "none") for each in signatures}))


def of_scored(task: TaskRun) -> tuple[str, ...]:
    """The signatures of the samples with points: a judge that gave none moves no score."""
    scored = (s for s in task.samples if Scored in (type(s.official), type(s.robust)))
    return tuple(dict.fromkeys(sample.signature for sample in scored)) or task.signatures


def listed(found: Iterable[Difference]) -> str:
    """The differences as a table."""
    rows = [[each.key, " and ".join(each.a), " and ".join(each.b)] for each in found]
    return table(["what", "A", "B"], rows, words=3)


def refuse_unless_alike(
    a: Sequence[str], b: Sequence[str], ignored: Collection[str], what: str
) -> tuple[Difference, ...]:
    """See that numbers can be compared.

    Args:
        a: The signatures of one run.
        b: Those of the other.
        ignored: Keys that may differ.
        what: The task, for the message.

    Returns:
        What differs and was ignored.

    Raises:
        SettingWrong: Something else differs, or no signature has a key that is to be ignored.
    """
    known = dict.fromkeys(key for signature in (*a, *b) for key in parts(signature))
    if unknown := sorted(set(ignored) - set(known)):
        hint = f"the keys there are: {', '.join(known) or 'none, these logs have no signatures'}"
        raise SettingWrong(f"`--ignore`: no signature has `{unknown[0]}`.", hint=hint)
    found = differences(a, b)
    if refused := [each for each in found if each.key not in ignored]:
        keys = ",".join(each.key for each in found)
        raise SettingWrong(
            f"`{what}`: A and B were not scored alike, so their numbers cannot be compared.\n\n"
            f"{listed(refused)}",
            hint="run one of them again as the other was run; where only the reader differs, "
            f"`mmie-tasks rescore` both; `--ignore {keys}` compares them all the same",
        )
    return found
