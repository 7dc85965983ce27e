"""The command ``mmie-tasks agreement``: how well judges and people agree on the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.arguments import listed_names, result_parser


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Compare judges and people on the same samples; returns tables in Markdown, or JSON."""
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
    from mmie_tasks.results.agreement.analysis import analyse
    from mmie_tasks.results.agreement.tables import tables
    from mmie_tasks.results.agreement.verdicts import read_raters, reference_of
    from mmie_tasks.results.render import json_text, markdown_page

    panel = read_raters(options.runs, tasks[0] if tasks else None, options.score_kind)
    reference = reference_of(panel, options.reference)
    agreement = analyse(panel, reference, options.score_kind, options.top)
    if options.json:
        return json_text(agreement)
    title = f"Agreement on {agreement.benchmark} (`{agreement.task}`)"
    unit = panel.benchmark.scale.unit
    text = f"The {options.score_kind} score, {unit}; intervals in brackets."
    return markdown_page(title, text, tables(agreement))
