"""Whether the scores of two runs can be compared: differences between their signatures."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.run import TaskRun

HARMLESS_KEYS = frozenset({"pkg", "replayed"})
"""Keys that move no score: a release that moves scores raises the task's version, and a replayed
reply is the reply of the recorded judge."""

TESTED_KEYS = frozenset({"answers", "judges_itself"})
"""Keys that describe the tested model, which may differ between the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureDifference:
    """A key in which two runs' signatures differ, and its sorted values: ``none`` if absent."""

    key: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.key}: {' and '.join(self.a)} / {' and '.join(self.b)}"


def signature_differences(
    a: Iterable[Signature], b: Iterable[Signature]
) -> tuple[SignatureDifference, ...]:
    """The keys that move a score and differ within or between two sets of signatures, in the order
    in which the signatures name them.

    A run that mixes two judges cannot be compared: the mixture counts as a difference, even if the
    other run has the same one.

    >>> one, other = (Signature(benchmark={"t": t}, package=f"0.{t}") for t in "01")
    >>> signature_differences([one], [other])
    (SignatureDifference(key='t', a=('0',), b=('1',)),)
    """
    runs = [[signature.scoring_fields for signature in signatures] for signatures in (a, b)]
    differences = []
    for key in dict.fromkeys(key for fields in (*runs[0], *runs[1]) for key in fields):
        of_a, of_b = (tuple(sorted({s.get(key, "none") for s in of_run})) for of_run in runs)
        is_mixed = len(of_a) > 1 or len(of_b) > 1
        if key not in HARMLESS_KEYS and (is_mixed or (of_a != of_b and key not in TESTED_KEYS)):
            differences.append(SignatureDifference(key=key, a=of_a, b=of_b))
    return tuple(differences)


def mixed_keys(signatures: Iterable[Signature]) -> tuple[str, ...]:
    """The keys that move a score and differ among these signatures.

    >>> mixed_keys(Signature.of_judges([{"judge": judge, "t": 0}]) for judge in "ab")
    ('judge',)
    """
    values = list(signatures)
    return tuple(difference.key for difference in signature_differences(values, values))


def scored_signatures(task_run: TaskRun) -> tuple[Signature, ...]:
    """The signatures of samples with points, or else all: a judge without scores moves no score."""
    scored = (s for s in task_run.records if Scored in (type(s.official), type(s.robust)))
    return tuple(dict.fromkeys(sample.signature for sample in scored)) or task_run.signatures


class NotComparable(SettingWrong):
    """Two runs were not scored alike: their signatures differ in `keys`."""

    keys: tuple[str, ...] = ()


def require_comparable(
    run_a: TaskRun, run_b: TaskRun, ignored: Collection[str] = ()
) -> tuple[SignatureDifference, ...]:
    """Check by the signatures that the scores of two runs of a task can be compared.

    Returns the ignored differences.

    Raises:
        NotComparable: The signatures differ in a key that is not ignored.
        SettingWrong: `ignored` has a key that no signature has.
    """
    a, b = scored_signatures(run_a), scored_signatures(run_b)
    keys = dict.fromkeys(key for signature in (*a, *b) for key in signature.scoring_fields)
    if unknown := sorted(set(ignored) - set(keys)):
        hint = f"the keys are: {', '.join(keys) or 'none, these logs have no signatures'}"
        raise SettingWrong(f"`--ignore`: no signature has `{unknown[0]}`.", hint=hint)
    differences = signature_differences(a, b)
    if refused := [difference for difference in differences if difference.key not in ignored]:
        all_keys = ",".join(difference.key for difference in differences)
        error = NotComparable(
            f"`{run_a.task}`: A and B were not scored alike ({'; '.join(map(str, refused))}), so "
            "their scores cannot be compared.",
            hint="run one of them again with the settings of the other; `--ignore "
            f"{all_keys}` compares them anyway",
        )
        error.keys = tuple(difference.key for difference in refused)
        raise error
    return differences
