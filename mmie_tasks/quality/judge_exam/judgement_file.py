"""A judge's verdicts on the pairs of a set, from a file."""

from __future__ import annotations

from pathlib import Path

from loguru import logger
from pydantic import ValidationError

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.quality.judge_exam.mmrb2_files import mmrb2_judge_rows
from mmie_tasks.quality.judge_exam.opening import opening_judge_rows
from mmie_tasks.quality.judge_exam.published_files import FIRST_WINS, first_problem
from mmie_tasks.quality.judge_exam.verdict_set import Judgement, NoVerdict, VerdictSet
from mmie_tasks.results.commands import read_text


def read_judgements(path: Path, verdict_set: VerdictSet) -> tuple[Judgement, ...]:
    """A judge's verdicts from a file in the layout in which the set's repository publishes or reads
    them.

    A missing or empty verdict is none. One that names no side is none in OpenING; in MMRB2 it is
    undecided and counts as wrong, as in its ``compute_accuracy.py``. Each pair of the set gets a
    judgement in each order that is asked for, with or without verdict. What the file has on other
    pairs is named in the log.

    Raises:
        AnswersUnusable: The file cannot be read, is not in that layout, has two verdicts on a pair
            in one order, or none on a pair of the set.
    """
    is_mmrb2 = verdict_set.name == "mmrb2"
    hint = f"name a judge's file in the layout of {verdict_set.short_title}"
    text = read_text(path, hint)
    rows = mmrb2_judge_rows(text) if is_mmrb2 else opening_judge_rows(text, verdict_set)
    winners: dict[tuple[str, bool], str] = {}
    try:
        for pair_id, is_reversed, winner in rows:
            if (pair_id, is_reversed) in winners:
                message = f"`{path}` has two verdicts on `{pair_id}` in one order."
                raise AnswersUnusable(message, hint="remove one of them")
            winners[pair_id, is_reversed] = winner or ""
    except ValidationError as error:
        message = f"`{path}` is not in the expected layout: {first_problem(error)}."
        raise AnswersUnusable(message, hint=hint) from error
    judged = {pair_id for pair_id, _ in winners}
    unknown = sorted(judged - {pair.id for pair in verdict_set.pairs})
    if len(unknown) == len(judged):
        message = f"`{path}` has no verdict on a pair of {verdict_set.title}."
        raise AnswersUnusable(message, hint=hint)
    if unknown:
        names = ", ".join(f"`{name[:80]}`" for name in unknown[:3]) + (", …" if unknown[3:] else "")
        logger.warning(
            f"`{path}` has verdicts on {len(unknown)} pairs that are not in the set: {names}."
        )
    asked = [(pair.id, order) for pair in verdict_set.pairs for order in (False, True)]
    if not verdict_set.both_orders:  # those of the file, and A first of pairs that it lacks
        asked = [(id_, o) for id_, o in asked if (id_, o) in winners or not (o or id_ in judged)]
    return tuple(_judgement(is_mmrb2, *key, winners.get(key, "")) for key in asked)


def _judgement(is_mmrb2: bool, pair: str, is_reversed: bool, winner: str) -> Judgement:
    if is_mmrb2 and winner not in ("A", "B", ""):
        return Judgement(pair=pair, is_reversed=is_reversed, a_wins=0.5, is_wrong=True)
    if (first_wins := FIRST_WINS.get(winner)) is not None:
        return Judgement.in_order(pair, is_reversed=is_reversed, first_wins=first_wins)
    reason = f"the verdict is {winner[:40]!r}" if winner else "no verdict in the file"
    why_not = NoVerdict(reason)
    return Judgement(pair=pair, is_reversed=is_reversed, a_wins=None, why_not=why_not)
