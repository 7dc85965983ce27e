"""The plan of the answers that people should score.

A plan is a random sample of a run whose order can be verified: the samples of a stratum are in the
order of the SHA-256 of seed and id. People score the first ones of each stratum, so scores that
were stopped early, a plan that was extended and a plan of two runs are all random samples, and the
run and the seed alone show whether the scored samples are one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.quality.calibrate.judged_samples import JudgedSamples
from mmie_tasks.record.intervals import allocation
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.results.labels import answer_digest

_MIN_PER_STRATUM = 2  # samples that a plan takes of every stratum at least: one has no spread


def strata_in_order(strata: Mapping[str, str], seed: int) -> dict[str, list[str]]:
    """Stratum, by name, to its ids in the order in which people should score them: by SHA-256 of
    seed and id.

    Args:
        strata: Sample id to its stratum.
        seed: Of the plan.

    >>> strata_in_order(dict.fromkeys("abcd", "SA"), 7)
    {'SA': ['c', 'd', 'b', 'a']}
    """
    ids_by_stratum: dict[str, list[str]] = {name: [] for name in sorted(set(strata.values()))}

    def position(id_: str) -> bytes:
        return hashlib.sha256(f"{seed}\n{id_}".encode(errors="surrogatepass")).digest()

    for id_ in sorted(strata, key=position):
        ids_by_stratum[strata[id_]].append(id_)
    return ids_by_stratum


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """An answer that people should score: the sample and its id, the `answer_digest`, and the
    stratum that it was drawn in.
    """

    id: str
    answer: str
    stratum: str
    sample: LoggedSample


def planned_answers(
    runs: Sequence[JudgedSamples], samples: int, seed: int
) -> tuple[PlannedAnswer, ...]:
    """The answers to score, in an order that stays in proportion to the strata wherever one stops.

    Identical answers of two runs are one. Those of one sample are in an order that says nothing
    about the runs.

    Args:
        runs: One or more; the plan is over the samples that any of them has points for.
        samples: How many samples; all if there are fewer.
        seed: The same seed gives the same plan, whatever the order of the log.
    """
    strata = {id_: judged.stratum for run in runs for id_, judged in run.by_id.items()}
    ordered = strata_in_order(strata, seed)
    counts = _counts([len(ids) for ids in ordered.values()], samples)
    ranked = sorted(
        ((rank + 0.5) / count, position, id_)
        for position, (count, ids) in enumerate(zip(counts, ordered.values(), strict=True))
        for rank, id_ in enumerate(ids[:count])
    )
    plan: list[PlannedAnswer] = []
    for _, _, id_ in ranked:
        answers = [run.by_id[id_].sample for run in runs if id_ in run.by_id]
        for digest, sample in sorted({answer_digest(sample): sample for sample in answers}.items()):
            plan.append(PlannedAnswer(id=id_, answer=digest, stratum=strata[id_], sample=sample))
    return tuple(plan)


def _counts(sizes: Sequence[int], samples: int) -> list[int]:
    """Samples of each stratum: in proportion, and `_MIN_PER_STRATUM` at least."""
    proportional = allocation(sizes, min(samples, sum(sizes)))
    counts = [
        max(count, min(_MIN_PER_STRATUM, size))
        for count, size in zip(proportional, sizes, strict=True)
    ]
    for _ in range(sum(counts) - sum(proportional)):
        largest = max(range(len(counts)), key=counts.__getitem__)
        counts[largest] -= counts[largest] > _MIN_PER_STRATUM
    return counts
