"""The command ``mmie-tasks agreement``: how far judges, and people, agree on the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.agreement_text import agreement_text
from mmie_tasks.results.agreement.analysis import Agreement, analyse
from mmie_tasks.results.agreement.rater_panel import reference_of
from mmie_tasks.results.agreement.rater_sources import read_raters
from mmie_tasks.results.commands import listed_names, result_parser
from mmie_tasks.results.render import json_text


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Compare judges, and people, on the same samples; returns tables in Markdown, or JSON.

    Raises:
        AnswersUnusable: A run or CSV cannot be read, or they have nothing in common.
        SettingWrong: An option is out of range or names nothing.
    """
    parser = result_parser(
        "agreement",
        "How far judges, and people, agree on the same answers: the paper's cosine, MSE, MAE and "
        "Pearson first, then Spearman, quadratic kappa, bias, Krippendorff's alpha, and the "
        "samples they disagree on. A judge's score is put on the scale of the reference, and so is "
        "that of a further run by the same judge, of another model's answers. Reads runs saved "
        "with `--log_samples`, and CSV files.",
        runs="RUN_OR_CSV",
        top=10,
    )
    parser.add_argument("--reference", metavar="NAME", help="default: the people, or the first run")
    options = parser.parse_args(arguments)
    tasks = listed_names(options.tasks)
    if len(tasks) > 1:
        raise SettingWrong(
            f"`agreement` compares one task, and `--tasks` names {len(tasks)}.",
            hint="name one of them",
        )
    panel = read_raters(options.runs, tasks[0] if tasks else None, options.score_kind)
    reference = reference_of(panel, options.reference)
    agreement = analyse(panel, reference, options.top)
    if options.json:
        return _as_json(agreement, options.score_kind)
    return agreement_text(agreement, options.score_kind)


def _as_json(agreement: Agreement, score_kind: ScoreKind) -> str:
    """All results as one object; null for undefined values, with the reason next to it."""
    panel, scale = agreement.panel, agreement.panel.benchmark.scale
    document = {
        "task": panel.task,
        "benchmark": panel.benchmark.title,
        "reading": score_kind,
        "scale": {"full_marks": scale.full_marks, "unit": scale.unit, "whole": scale.whole},
        "reference": agreement.reference,
        "samples": {
            "compared": len(panel.points),
            "in_one_only": panel.in_one_only,
            "other_answers": panel.other_answers,
            "unseen_answers": panel.unseen_answers,
        },
        "raters": [
            {
                "name": rater.name,
                "kind": rater.kind,
                "source": rater.source,
                "with_points": len(rater.points),
                "mean": rater.mean,
                "unscored": rater.unscored_counts,
                "signatures": rater.signatures,
                "notes": rater.notes,
            }
            for rater in panel.raters
        ],
        "means": panel.members,
        "with_reference": agreement.with_reference,
        "other_pairs": agreement.other_pairs,
        "alphas": agreement.alphas,
        "group_pairs": agreement.group_pairs,
        "bridges": agreement.bridges,
        "disputed": agreement.disputed,
    }
    return json_text(document)
