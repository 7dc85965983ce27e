"""A fixed random choice of pairs or samples, in which every stratum has about its share."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from mmie_tasks.quality.judge_exam.verdict_set import Pair


def choose_pairs(pairs: Sequence[Pair], limit: int | None) -> tuple[Pair, ...]:
    """A `fixed_choice` of pairs by subset; without a limit all, in their order."""
    if limit is None or limit >= len(pairs):
        return tuple(pairs)
    by_id = {pair.id: pair for pair in pairs}
    chosen = fixed_choice({pair.id: pair.subset for pair in pairs}, limit)
    return tuple(by_id[id_] for id_ in chosen)


def fixed_choice(strata: Mapping[str, str], limit: int) -> tuple[str, ...]:
    """A fixed random choice of `limit` ids, in which every stratum has about its share.

    A smaller choice is the beginning of a larger one. The order of the ids does not matter.
    """
    ids_by_stratum: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in sorted(strata, key=_fraction):
        ids_by_stratum[strata[id_]].append(id_)
    # Systematic sampling: a stratum's ids are spread evenly from 0 to 1, with a random start.
    positions = [
        ((rank + _fraction(stratum)) / len(members), _fraction(id_), id_)
        for stratum, members in ids_by_stratum.items()
        for rank, id_ in enumerate(members)
    ]
    return tuple(id_ for _, _, id_ in sorted(positions)[:limit])


def _fraction(name: str) -> float:
    """A number from 0 to 1 that looks random, the same in every process."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 256**6
