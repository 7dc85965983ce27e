"""The command ``mmie-tasks compare``: whether one tested model is better than another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.results.arguments import listed_names, result_parser


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Compare two runs; returns tables, or JSON."""
    parser = result_parser(
        "compare",
        "Compare two tested models over the same samples: paired differences, their intervals, and "
        "whether they could be chance. Runs that were not scored alike (another judge, prompt, "
        "task version or data) are refused.",
        runs=("a", "b"),
        top=10,
    )
    help_text = "keys of the signatures that may differ; default: none"
    parser.add_argument("--ignore", default="", metavar="KEY,...", help=help_text)
    parsed = parser.parse_args(arguments)
    from mmie_tasks.results.commands import common_tasks
    from mmie_tasks.results.compare.comparison import compare
    from mmie_tasks.results.compare.text import comparison_text
    from mmie_tasks.results.render import json_text
    from mmie_tasks.results.run import load_run

    tasks, ignored = listed_names(parsed.tasks), listed_names(parsed.ignore)
    a, b = load_run(parsed.a, tasks), load_run(parsed.b, tasks)
    pairs = [(a.tasks[task], b.tasks[task]) for task in common_tasks({"A": a, "B": b})]
    comparisons = [
        compare(*pair, parsed.score_kind, top=parsed.top, ignored_keys=ignored) for pair in pairs
    ]
    if parsed.json:
        return json_text({"a": a, "b": b, "tasks": comparisons})
    return comparison_text(a, b, comparisons)
