"""Marks: what makes a run incomparable with the published scores, printed as "unlike the paper"."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import counted, listed, plural
from mmie_tasks.record.answering_model import is_other_name, other_models, shown_model
from mmie_tasks.record.facts import totals
from mmie_tasks.record.record import Record
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.sight import equal_counts
from mmie_tasks.record.signature import COVERAGE_FLOOR, Signature
from mmie_tasks.results.panels import judge_runs
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.scores import in_proportion, reasons_of

_MIN_SAME = 3  # answers with the same short text
_MAX_SHORT_CHARACTERS = 100
_MIN_SHARE, _MIN_SHARE_OF_WORDS = 0.005, 0.05  # of the answers; for a text of one or two words
# Usual short texts: a letter, yes or no, a word with a number, and "the answer is ...".
_USUAL = re.compile(
    r"[a-z]|yes|no|true|false|\S*\d\S*(?: \S+)?"
    r"|(?:the )?(?:\w+ )?(?:answer|option|choice)(?: is|:).*"
)
_PLACEHOLDER = re.compile(r"<[^<>\n]{1,30}>|\[[^\[\]\n]{1,30}\]")
_MAX_BEFORE_QUESTION = 100  # characters of the answer: a role's name
_MIN_QUESTION = 20  # characters without white space: a word or two may occur by accident
_MAX_NAMED = 3
_REQUESTED_PICTURES = {"pictures_drawn", "pictures_failed"}
_MAX_QUOTED_CHARACTERS = 60


def paper_marks(task_run: TaskRun) -> tuple[str, ...]:
    """What makes the scores of a task incomparable with the published ones, most important first.

    Marks are ``8 of 20,103 samples (--limit 8)``, ``judge: gpt-4o, not the paper's``. There are
    none for all published samples with the paper's judge and prompt, if every sample is scored.
    """
    return tuple(filter(None, _marks(task_run)))


def _marks(task_run: TaskRun) -> Iterator[str]:
    signatures = task_run.signatures
    benchmark = task_run.benchmark
    counts = totals(record.facts for record in task_run.records)
    yield from _image_marks(task_run.records, counts)
    yield _unscored(task_run.records)
    yield _part_of_samples(task_run)
    if not in_proportion(task_run.records, benchmark):
        yield f"{plural(benchmark.strata)} not in {benchmark.title}'s proportions"
    if any(signature.is_of_another_judge for signature in signatures):
        names = ", ".join(dict.fromkeys(map(_judge_and_host, signatures)))
        yield f"judge: {names}, not the paper's"
    elif settings := {s: None for signature in signatures for s in signature.judge_settings}:
        yield f"judge asked with {', '.join(settings)}"
    yield from answerer_marks(task_run.records)
    for judge in {signature.self_judge: None for signature in signatures if signature.self_judge}:
        yield f"judge and tested model are one: {judge}"
    yield from _cut_marks(task_run)
    if any(signature.has_other_prompt for signature in signatures):
        yield "other prompt words"
    for share in {signature.min_coverage: None for signature in signatures}:
        if share != COVERAGE_FLOOR:
            yield f"min_coverage {share:g}, not {COVERAGE_FLOOR:g}"
    yield from _picture_marks(task_run, counts)
    yield from text_marks(task_run.records)
    yield from _question_marks(task_run.records)
    if len(signatures) > 1:
        yield f"{len(signatures)} different signatures in one run"


def _unscored(records: Sequence[Record]) -> str:
    """``4 unscored: unparsed``; empty if there are none."""
    reasons = reasons_of(records, "official")
    del reasons["left_out"]
    if not reasons:
        return ""
    named = listed(reasons) if len(reasons) > 1 else next(iter(reasons))
    return f"{reasons.total():,} unscored: {named}"


def _judge_and_host(signature: Signature) -> str:
    """The judge, and the server that answered under its name: ``gpt-4o at 127.0.0.1:8000``."""
    hosts = [judge["host"] for judge in signature.judges if "host" in judge]
    return f"{signature.name} at {hosts[0]}" if len(hosts) == 1 else signature.name


def _cut_marks(task_run: TaskRun) -> Iterator[str]:
    """One mark for each judge whose server may have cut its requests."""
    for index, name in enumerate(judge_runs(task_run) or [""]):
        judgements = (one for sample in task_run.records for one in sample.judgements[index:][:1])
        if reason := equal_counts(reply for one in judgements for reply in one.result.replies):
            judge = f"{name}: " if name else ""
            yield f"{judge}the judge's server may have cut its requests: {reason}"


def _image_marks(samples: Sequence[Record], counts: Counter[str]) -> Iterator[str]:
    """Images that answers name or announce and that the judge did not get."""
    images = [segment for sample in samples for segment in sample.answer if segment.image]
    of_all = f"of {counted(len(images), 'image')} of answers"
    problems = Counter(segment.problem for segment in images if segment.problem)
    if missing := problems.pop("missing", 0):
        yield f"{missing:,} {of_all} missing"
    if problems:
        yield f"{problems.total():,} {of_all} unusable: {listed(problems)}"
    if unfilled := counts["unfilled_placeholders"]:
        yield f"{counted(unfilled, 'placeholder')} without an image"


def _picture_marks(task_run: TaskRun, counts: Counter[str]) -> Iterator[str]:
    words = filter(None, (signature.picture_words for signature in task_run.signatures))
    names = ", ".join(dict.fromkeys(words))
    is_drawn = task_run.answer_form == "drawn"
    if names and not is_drawn:
        yield f"asked for pictures by words of ours ({names}), and no drawer drew them"
    if is_drawn:
        yield f"pictures drawn by our reconstruction ({names}), not by the paper's pipeline"
    if is_drawn and (cut := counts["truncated"]):
        yield f"{counted(cut, 'answer')} cut by the limit on images"
    if not_drawn := counts["pictures_failed"]:
        yield f"{counted(not_drawn, 'picture')} not drawn"
    if unasked := sum(map(_asks_for_no_picture, task_run.records)):
        yield f"{counted(unasked, 'answer')} without a picture to draw"
    if unplaced := counts["pictures_unplaced"]:
        yield f"pictures without a place: {counted(unplaced, 'answer')}"
    if unread := counts["looks_unread"]:
        yield f"looks like JSON or an image reference: {counted(unread, 'answer')}"


def _asks_for_no_picture(sample: Record) -> bool:
    """Whether an answer that may have pictures has no marker, or none with words to draw."""
    return "pictures_unused" in sample.facts and not sample.facts.keys() & _REQUESTED_PICTURES


def _part_of_samples(task_run: TaskRun) -> str:
    """How many of the published samples the run has, unless it has all."""
    published, n_samples = task_run.benchmark.published.get(task_run.task), len(task_run.records)
    options = (("--limit", task_run.limit), ("--offset", task_run.offset))
    part = " ".join(f"{option} {value:g}" for option, value in options if value)
    part = counted(len(task_run.logs), "log") if len(task_run.logs) > 1 else part
    part = part and f" ({part})"
    if published is None:
        return f"{n_samples:,} samples{part}" if part else ""
    return f"{n_samples:,} of {published:,} samples{part}" if n_samples != published else ""


def text_marks(samples: Sequence[Record]) -> Iterator[str]:
    """Answers with a text that the tested model may not have written, or not in this form.

    The marks count answers with a tag that is not read, and name short texts that answer several
    samples: ``40 answers are the same: `I cannot help.` ``. Such a text answers
    at least three samples, and one in 200, or one in 20 if it has one or two words. It is not a
    gold answer, a letter, a number, yes or no, or of the form "the answer is ...".
    """
    answered = [sample for sample in samples if not _is_missing(sample)]
    tags = Counter(str(tag) for sample in answered if (tag := sample.facts.get("tag")))
    if n_tags := tags.total():
        yield f"{counted(n_tags, 'answer')} with a tag: {_named(tags)}"
    for text, count in _same_texts(answered)[:_MAX_NAMED]:
        yield (
            f"{count:,} answers are the same: `{_quoted(text)}`"
            if text
            else f"{count:,} answers are empty"
        )


def _question_marks(samples: Sequence[Record]) -> Iterator[str]:
    if n_echoes := sum(map(_begins_with_question, samples)):
        begin = "begins with its" if n_echoes == 1 else "begin with their"
        yield f"{counted(n_echoes, 'answer')} {begin} question"


def _begins_with_question(sample: Record) -> bool:
    """Whether the whole question begins within the first 100 characters of the answer.

    Texts are compared without white space and placeholders of images. Scripts that store input and
    output tokens write such answers, and nothing is cut from them.
    """
    question, answer = _folded(sample.question).replace(" ", ""), _folded(sample.answer)
    if len(question) < _MIN_QUESTION:
        return False
    last_start = len(answer[:_MAX_BEFORE_QUESTION].replace(" ", "")) - 1
    return question in answer.replace(" ", "")[: last_start + len(question)]


def _folded(segments: Segments) -> str:
    """The texts with single spaces, without placeholders such as ``<image>`` and ``[image 1]``."""
    texts = " ".join(segment.text or "" for segment in segments)
    return " ".join(_PLACEHOLDER.sub(" ", texts).split())


def _is_missing(sample: Record) -> bool:
    verdict = sample.official
    return isinstance(verdict, Unscored) and verdict.reason in ("no_answer", "not_text")


def _named(counts: Counter[str]) -> str:
    """Names, the most frequent first, with their counts if there are several."""
    if len(counts) == 1:
        return f"`{next(iter(counts))}`"
    more = f" and {len(counts) - _MAX_NAMED:,} more" if len(counts) > _MAX_NAMED else ""
    named = counts.most_common(_MAX_NAMED)
    return ", ".join(f"`{name}` ({count:,})" for name, count in named) + more


def _same_texts(samples: Sequence[Record]) -> list[tuple[str, int]]:
    counts = Counter(text for sample in samples if (text := _short_text(sample)) is not None)
    gold = {_plain(segment.text) for sample in samples for segment in sample.gold if segment.text}
    return [
        (text, count)
        for text, count in counts.most_common()
        if count >= max(_MIN_SAME, _min_share(text) * len(samples))
        and _plain(text) not in gold
        and not _USUAL.fullmatch(_plain(text))
    ]


def _short_text(sample: Record) -> str | None:
    """The whole answer in one line of printable characters, if other samples should not have the
    same; None for one that is long, has images or a tag, or names an option of its question.
    """
    text = sample.answer_text
    if len(text) > 2 * _MAX_SHORT_CHARACTERS or {"tag", "option"} & sample.facts.keys():
        return None
    if any(segment.image or segment.problem for segment in sample.answer):
        return None
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= _MAX_SHORT_CHARACTERS else None


def _min_share(text: str) -> float:
    return _MIN_SHARE if len(text.split()) not in (1, 2) else _MIN_SHARE_OF_WORDS


def _plain(text: str) -> str:
    return text.strip(" .!()[]*\"'").casefold()


def _quoted(text: str) -> str:
    long = len(text) > _MAX_QUOTED_CHARACTERS
    return f"{text[:_MAX_QUOTED_CHARACTERS].rstrip()}…" if long else text


def answerer_marks(samples: Iterable[Record]) -> Iterator[str]:
    """For each judge, the other models that its replies name, or else the different snapshots.

    A mark is ``replies by gemini-3.8-flash (3 of 8)``, without the count if all replies name it.
    """
    models: dict[Signature, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        for judged in sample.judgements:
            models[judged.judge].update(reply.model for reply in judged.result.replies)
    for judge, counts in models.items():
        names = other_models(judge, counts) or _different(counts)
        shown = ", ".join(_counted(name, counts) for name in names)
        if shown:
            yield f"{judge.name}: replies by {shown}" if len(models) > 1 else f"replies by {shown}"


def _different(counts: Counter[str]) -> list[str]:
    """All of these models, if two differ."""
    differ = any(is_other_name(a, b) for a, b in combinations(counts, 2))
    return [model for model in counts if model] if differ else []


def _counted(model: str, counts: Counter[str]) -> str:
    count, total = counts[model], counts.total()
    share = "" if count == total else f" ({count:,} of {total:,})"
    return f"{shown_model(model)}{share}"
