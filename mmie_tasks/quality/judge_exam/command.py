"""The command ``mmie-tasks judge-exam``: how often a judge of answers agrees with people."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import (
    counted,
    listed,
    percent_cell,
    short_name,
    signed_cell,
    table,
    wrapped,
)
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.flags import with_judge_args
from mmie_tasks.judges.registry import JudgeChoice, parse_choice
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.judging.shared_judge import SharedJudge
from mmie_tasks.quality.judge_exam.exam import COMPARE, Exam, PublishedVerdicts, as_json
from mmie_tasks.quality.judge_exam.fixed_choice import choose_pairs
from mmie_tasks.quality.judge_exam.grade import Grade, Share, grade
from mmie_tasks.quality.judge_exam.judgements import read_judgements
from mmie_tasks.quality.judge_exam.methods import ExamMethod, comparing, giving_points
from mmie_tasks.quality.judge_exam.mmrb2 import load_mmrb2
from mmie_tasks.quality.judge_exam.opening import load_opening
from mmie_tasks.quality.judge_exam.request_costs import cost_text
from mmie_tasks.quality.judge_exam.stored import store
from mmie_tasks.quality.judge_exam.stress import run_stress
from mmie_tasks.quality.judge_exam.verdicts import Judgement, SetName, VerdictSet
from mmie_tasks.record.signature import Signature, signature_text
from mmie_tasks.results.commands import require_range

_FOLDER_HINT = (
    "`--folder FOLDER` with the answers and pictures; `--verdicts FILE` grades "
    "published verdicts without them"
)

_SETS: Mapping[SetName, Callable[[Path | None, Mapping[str, str]], VerdictSet]] = {
    "mmrb2": load_mmrb2,
    "opening": load_opening,
}


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str | int:
    """Grade a judge on people's verdicts; returns text or JSON, or the status 130 if the user
    interrupts.

    Raises:
        MmieTasksError: An option is invalid, the judge cannot be used or gave no verdict at all, or
            the set could not be loaded.
    """
    options = _parser().parse_args(arguments)
    _check_options(options)
    folder = Path(options.folder).expanduser() if options.folder else None
    load = partial(_SETS[options.set], folder, environment)
    if options.verdicts:
        exam = _published(Path(options.verdicts).expanduser(), load())
        return _printed(exam, is_json=options.json)
    text = options.judge
    if options.judge_args:
        text = with_judge_args(text, options.judge_args)
    choice = parse_choice(text, "`judge-exam`")
    shared = JudgingSession(environment=environment).open(choice)
    if not options.stress and options.set == "opening" and folder is None:
        message = "OpenING's answers are read from a local folder only."
        raise SettingWrong(message, hint=_FOLDER_HINT)
    try:
        if options.stress:
            return run_stress(
                shared, options.stress, options.task, options.limit, as_json=options.json
            )
        method = _method(choice, options.method)
        shared.check()  # before a download
        exam = _examine(shared, method, load(), options.limit, environment)
    except KeyboardInterrupt:
        sys.stderr.write(
            "\nInterrupted. The replies so far are in the cache: the same command asks for the "
            "rest.\n"
        )
        return 130
    return _printed(exam, is_json=options.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks judge-exam",
        description="Grade a judge on people's published verdicts: it compares two answers to the "
        "same question, in both orders, or gives points to each one in a benchmark's own prompt. "
        "The grade says how often it agrees with people.",
    )
    add = parser.add_argument
    judge_help = "as for `--judge`: openai:MODEL, or NAME:k=v,..."
    add("judge", nargs="?", metavar="JUDGE", help=judge_help)
    args_help = "more options of the judge; default: none"
    add("--judge_args", default="", metavar="k=v,...", help=args_help)
    add("--judge-args", dest="judge_args", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    set_help = "whose verdicts: MMRB2 (interleaved pairs) or OpenING; default: %(default)s"
    add("--set", choices=tuple(_SETS), default="mmrb2", help=set_help)
    folder_help = (
        "a local folder with the set; OpenING's answers are read from a folder only; "
        "default: download the set"
    )
    add("--folder", metavar="FOLDER", help=folder_help)
    method_help = (
        "compare, or a benchmark whose prompt and official reader give points to each answer: "
        "mmie, mia_bench; default: compare, and for mmie_score mmie"
    )
    add("--method", metavar="NAME", help=method_help)
    limit_help = (
        "ask about N pairs or answers, a fixed random choice; default: all pairs, 100 answers"
    )
    add("--limit", type=int, metavar="N", help=limit_help)
    verdicts_help = (
        "grade the verdicts that are published for a judge in this file, and ask no "
        "judge; default: none"
    )
    add("--verdicts", metavar="FILE", help=verdicts_help)
    stress_help = (
        "change answers of this run and say how far the judge's points move; default: none"
    )
    add("--stress", default="", metavar="RUN", help=stress_help)
    task_help = "the task of the run, if it has several judged ones; default: the only one"
    add("--task", default="", metavar="NAME", help=task_help)
    add("--json", action="store_true", help="print JSON")
    return parser


def _check_options(options: argparse.Namespace) -> None:
    """Refuse options that have no effect with published verdicts, in a stress test, or without
    one; and a bad number.
    """
    if bool(options.judge) == bool(options.verdicts):
        problem = "both a judge and `--verdicts`" if options.judge else "no judge"
        hint = "`mmie-tasks judge-exam openai:MODEL`, or `--verdicts FILE` for published verdicts"
        raise SettingWrong(f"`judge-exam` got {problem}.", hint=hint)
    if options.limit is not None:
        hint = "the number of pairs: 100, for example"
        require_range("--limit", options.limit, 1, None, hint=hint)
    names: tuple[str, ...] = ("task",)
    where = "without `--stress`"
    if options.stress:
        names, where = ("folder", "method"), "with `--stress`"
    elif options.verdicts:
        names, where = ("judge_args", "limit", "method", "task"), "with `--verdicts`"
    for name in names:
        if getattr(options, name):
            raise SettingWrong(f"`--{name}` has no effect {where}.", hint=f"leave `--{name}` out")


def _method(choice: JudgeChoice, name: str | None) -> ExamMethod:
    """How the judge is asked; by default it compares, or else it judges as for the benchmark whose
    judge it is.

    Raises:
        SettingWrong: There is no such method, or it is not one for this judge.
        MmieTasksError: The prompt of a benchmark is not available.
    """
    can_compare = registry.can_compare(choice.name)
    if name == COMPARE and not can_compare:
        message = f"The judge `{choice.name}` gives points and does not compare."
        hint = "leave `--method` out, or name a benchmark: `--method mmie`"
        raise SettingWrong(message, hint=hint)
    if name == COMPARE or (name is None and can_compare):
        return comparing()
    for benchmark in (entry.load() for entry in entries() if name in (None, entry.name)):
        default = parse_choice(benchmark.judge.default, "").name if benchmark.judge else ""
        if benchmark.judge_request and (name or default == choice.name):
            return giving_points(benchmark.name, benchmark.judge_request)
    message = f"There is no method `{name}`."
    if name is None:
        message = f"The judge `{choice.name}` is that of no benchmark."
    hint = "`--method compare`, or a benchmark with a judge's prompt: `--method mmie`"
    raise SettingWrong(message, hint=hint)


def _published(path: Path, verdict_set: VerdictSet) -> Exam:
    """Grade the published verdicts of a judge; makes no judge calls and stores nothing."""
    judgements = read_judgements(path, verdict_set)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return Exam(
        judge=PublishedVerdicts(file=path.name, digest=digest),
        exam=_set_signature(verdict_set),
        verdict_set=verdict_set,
        grade=grade(verdict_set, judgements),
        why_not=_reasons(judgements),
    )


def _examine(
    shared: SharedJudge,
    method: ExamMethod,
    whole: VerdictSet,
    limit: int | None,
    environment: Mapping[str, str],
) -> Exam:
    """Ask a judge, grade it and store the grade; not that of a judge without any verdict."""
    if not whole.has_answers or not whole.pairs:
        message = f"{whole.title} has people's verdicts here, and no answers to ask a judge about."
        raise SettingWrong(message, hint=_FOLDER_HINT)
    verdict_set = replace(whole, pairs=choose_pairs(whole.pairs, limit))
    count = len(verdict_set.pairs)
    how = "each in both orders"
    if method.name != COMPARE:
        how = f"each answer by itself in the prompt of {method.name}"
    sys.stderr.write(
        f"{verdict_set.title}\nlicence: {verdict_set.licence}\nsource: {verdict_set.source}\n"
        f"{counted(count, 'pair')} of {len(whole.pairs):,}, {how}: {counted(2 * count, 'request')} "
        "at most; what is in the cache is not asked again.\n"
    )
    comparisons = method.ask(shared, verdict_set.pairs, f"pairs of {verdict_set.name}")
    exam = Exam(
        judge=Signature(shared.judge.signature),
        exam=signature_text(_set_signature(verdict_set), method.signature),
        verdict_set=verdict_set,
        grade=grade(verdict_set, comparisons.judgements),
        why_not=_reasons(comparisons.judgements),
        method=method.name,
        cut_images=comparisons.cut_images,
        cut_texts=comparisons.cut_texts,
        usd_per_1000=comparisons.outcome.usd_per_1000,
        seconds_per_1000=comparisons.outcome.seconds_per_1000,
    )
    return store(exam, environment) if exam.grade.judged else exam


def _set_signature(verdict_set: VerdictSet) -> str:
    """Set, number of pairs, and a digest of the pairs' ids and people's verdicts."""
    verdicts = sorted((pair.id, pair.winner, pair.is_tie) for pair in verdict_set.pairs)
    digest = hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()[:12]
    return signature_text(set=verdict_set.name, pairs=f"{len(verdicts)},{digest}")


def _reasons(judgements: Iterable[Judgement]) -> Mapping[str, int]:
    return Counter(judgement.why_not for judgement in judgements if judgement.a_wins is None)


def _printed(exam: Exam, *, is_json: bool) -> str:
    """The exam as JSON or text.

    Raises:
        JudgeMisconfigured: The judge gave no verdict at all.
    """
    if not exam.grade.judged:
        asked, first = counted(exam.grade.asked, "comparison"), next(iter(exam.why_not))
        reasons = f"{listed(_shortened(exam.why_not))}. The first: {short_name(first)}"
        raise JudgeMisconfigured(
            f"The judge gave no verdict on {asked}: {reasons}",
            hint="the same command sends requests that failed again; a judge whose replies cannot "
            "be read has no grade",
        )
    return as_json(exam) if is_json else _as_text(exam)


def _as_text(exam: Exam) -> str:
    verdict_set = exam.verdict_set
    how = "An undecided judge counts as half."
    if isinstance(exam.judge, PublishedVerdicts) and verdict_set.name == "mmrb2":
        how = "A verdict that names neither answer counts as wrong, as in the set's own script."
    if exam.method != COMPARE:
        scores = f"Official scores in the prompt of {exam.method}"
        how = f"{scores} are compared; equal scores count as half."
    rows, names_by_reason = [], defaultdict[str, list[str]](list)
    for name, judge, people in _shares(exam.grade):
        counts = [share.n for share in (judge, people) if share]
        if any(counts):
            cells = ["" if share is None else _cell(share) for share in (judge, people)]
            rows.append([name, *cells, f"{counts[0]:,}"])
        if judge and judge.why_not:
            names_by_reason[judge.why_not].append(name)
    reasons = [f"{', '.join(names)}: {why_not}." for why_not, names in names_by_reason.items()]
    by_subset = exam.grade.by_subset.items()
    subsets = [[short_name(name), _cell(share), f"{share.n:,}"] for name, share in by_subset]
    sentences = [wrapped(f"- {sentence}") for sentence in (*_sentences(exam), *reasons)]
    blocks = [
        f"# Grade of a judge on {counted(len(verdict_set.pairs), 'pair')} of answers",
        wrapped(f"{verdict_set.title}. {how} In percent, with 95 % intervals."),
        f"Verdict: {exam.grade.verdict}",
        table(["", "judge", "people", "cases"], rows),
        _leanings(exam.grade),
        table(["subset", "agreement", "cases"], subsets) if len(subsets) > 1 else "",
        "\n".join(sentences),
        f"judge: {exam.judge}\nexam: {exam.exam}",
    ]
    return "\n\n".join(block for block in blocks if block)


def _shares(result: Grade) -> Iterator[tuple[str, Share | None, Share | None]]:
    """Titles of rows, with the judge's and people's share."""
    yield "agreement with people", result.agreement, None
    yield "agreement without people's ties", result.agreement_untied, None
    yield "prefers neither answer", result.undecided, None
    if len(result.by_order) > 1:
        yield "agreement with A shown first", result.by_order["forward"], None
        yield "agreement with B shown first", result.by_order["reverse"], None
    yield "another verdict in the other order", result.flips, None
    yield "prefers the answer shown first", result.first_answer, result.first_answer_people
    yield "a rater agrees with people's verdict", None, result.raters
    yield "two raters agree", None, result.rater_pairs


def _leanings(result: Grade) -> str:
    """The judge's errors by what people prefer; empty if nothing of it is known."""
    rows = []
    for title, leaning in (
        ("the one shown first", result.order),
        ("the one with more pictures", result.more_images),
        ("the longer one", result.longer_text),
    ):
        if leaning.difference is not None:
            shares = [_cell(leaning.wrong_for), _cell(leaning.wrong_against)]
            rows.append([title, *shares, signed_cell(leaning.difference, leaning.interval)])
    header = ["wrong where people prefer ...", "that answer", "the other", "difference"]
    return table(header, rows) if rows else ""


def _cell(share: Share) -> str:
    return percent_cell(share.value, share.interval)


def _sentences(exam: Exam) -> Iterator[str]:
    result, verdict_set = exam.grade, exam.verdict_set
    reasons = f". Without verdict: {listed(_shortened(exam.why_not))}" if exam.why_not else ""
    judged = f"{result.judged:,} of {counted(result.asked, 'comparison')}"
    yield f"Coverage {percent_cell(result.coverage)} %: {judged} have a verdict{reasons}."
    if isinstance(exam.judge, Signature):
        noun = "comparisons" if exam.method == COMPARE else "answers"
        yield cost_text(noun, exam.usd_per_1000, exam.seconds_per_1000)
    if exam.cut_images or exam.cut_texts:
        cut = f"{counted(exam.cut_images, 'picture')} and {counted(exam.cut_texts, 'text')}"
        yield f"The prompt of {exam.method} does not show {cut} of the answers."
    if verdict_set.missing_answers:
        missing = counted(verdict_set.missing_answers, "published pair")
        yield f"{missing} left out: their answers are not in the folder."
    yield f"Licence: {verdict_set.licence}. Source: {verdict_set.source}."


def _shortened(reasons: Mapping[str, int]) -> Mapping[str, int]:
    """Reasons without their details, which may quote the judge."""
    counts: Counter[str] = Counter()
    for reason, count in reasons.items():
        counts[short_name(reason.partition(":")[0])] += count
    return counts
