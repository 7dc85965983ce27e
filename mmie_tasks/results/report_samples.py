"""The samples of the report: the most disputed first, with their texts, replies and images."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeAlias

from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.tables import NO_VALUE
from mmie_tasks.core.verdict import SCORE_KINDS, Scored, Unscored, Verdict, differ
from mmie_tasks.core.wording import counted
from mmie_tasks.hub.images import (
    DECODE_ERRORS,
    TooManyPixels,
    check_end,
    image_suffix,
    open_rgb,
    read_image,
    size_px,
)
from mmie_tasks.record.answering_model import other_models
from mmie_tasks.record.facts import shown_name
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.segment import Segment, Segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.panels import judge_points
from mmie_tasks.results.run import TaskRun

Values: TypeAlias = dict[str, object]
"""Values for the template."""

SampleRow: TypeAlias = tuple[Record | None, ...]
"""One sample in each run; None where a run does not have it."""

MAX_NAME = 150  # characters of a mark, a model or a reading
_MAX_TEXT = 20_000  # characters of a question, a gold answer, an answer or a reply
_MAX_PREVIEW = 100  # characters of a question in the list
_MAX_IMAGES = 6  # of a question, a gold answer or an answer
_MAX_PIXELS = 50_000_000  # more are not decoded: 150 MB as RGB
_SIDE_PX, _QUALITY = 384, 60  # of an embedded image: its longest side, and WebP's quality

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff](?:(?<=\r)\n)?")


def sample_rows(runs: Sequence[TaskRun]) -> list[SampleRow]:
    """Each sample in every run: those of the first run, then those that only later runs have."""
    by_id = [run.by_id for run in runs]
    ids = dict.fromkeys(id_ for of_run in by_id for id_ in of_run)
    return [tuple(of_run.get(id_) for of_run in by_id) for id_ in ids]


def dispute(row: SampleRow, full_marks: float) -> float:
    """Largest difference between runs or scores, as a fraction of full marks: 0 to 1.

    It is 1 where one verdict has points and another has none.
    """
    verdicts = _verdicts(row)
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if not points:
        return 0.0
    return (max(points) - min(points)) / full_marks if len(points) == len(verdicts) else 1.0


def priority(row: SampleRow, full_marks: float) -> tuple[float, float]:
    """Sort key: the most disputed, then the worst; a sample without points is as bad as 0."""
    points = [v.points if isinstance(v, Scored) else 0.0 for v in _verdicts(row)]
    return -dispute(row, full_marks), min(points)


def _verdicts(row: SampleRow) -> list[Verdict]:
    return [sample.verdict(kind) for sample in row if sample for kind in SCORE_KINDS]


def runs_differ(row: SampleRow) -> bool:
    """Whether the official scores of two runs differ."""
    first, *rest = (sample.official for sample in row if sample)
    return any(differ(first, verdict) for verdict in rest)


def filters_of(row: SampleRow) -> Iterator[tuple[str, str]]:
    """Title and choice of each filter that finds the sample."""
    samples = list(filter(None, row))
    for kind, names in samples[0].groups.items():
        yield from ((plain(kind.capitalize()), plain(name)) for name in names)
    reasons = (verdict.reason for verdict in _verdicts(row) if isinstance(verdict, Unscored))
    yield from (("Unscored", reason) for reason in dict.fromkeys(reasons))
    if any(sample.differs for sample in samples):
        yield "Only where", "official and robust differ"
    if runs_differ(row):
        yield "Only where", "runs differ"


def filter_choices(
    rows: Iterable[SampleRow], metrics: Sequence[Metric]
) -> dict[str, dict[str, int]]:
    """Title of each filter to its choices, each with its number of samples.

    Groups have the order of the benchmark's metrics, others are sorted.
    """
    counts = Counter(found for row in rows for found in filters_of(row))
    groups = [(m.by.capitalize(), name) for m in metrics for name in m.weights]
    ordered = [choice for choice in dict.fromkeys(groups) if choice in counts]
    choices: dict[str, dict[str, int]] = {}
    for title, name in dict.fromkeys([*ordered, *sorted(counts)]):
        choices.setdefault(title, {})[name] = counts[title, name]
    return choices


class Images:
    """The images of a page, as addresses of small WebP images, each once.

    `limit` is the number of characters that all addresses together may have.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.addresses: list[str] = []
        self.n_left_out = 0
        self._embedded: dict[str, _Embedded] = {}

    @property
    def characters(self) -> int:
        """The length of all addresses."""
        return sum(map(len, self.addresses))

    def values(self, segment: Segment) -> Values:
        """The image of a segment, or a note on why it is not shown."""
        file = segment.image or ""
        prompt = cut(segment.prompt, _MAX_TEXT)
        if segment.problem:
            return {"index": None, "note": cut(f"{segment.problem}: {file}", 300), "prompt": prompt}
        if file not in self._embedded:
            self._embedded[file] = self._embed(file)
        embedded = self._embedded[file]
        name, index, note = file_name(file), embedded.index, embedded.note
        if segment.sha256 and embedded.sha256 and segment.sha256 != embedded.sha256:
            index, note = None, "the file has changed since it was judged"
        return {"index": index, "note": f"{name}: {note}" if note else name, "prompt": prompt}

    def _embed(self, file: str) -> _Embedded:
        if self.characters >= self.limit:
            self.n_left_out += 1
            return _Embedded(note="left out for lack of space")
        try:
            content = _content(Path(file))
            webp = io.BytesIO()
            _thumbnail(Path(file), content).save(webp, "WEBP", quality=_QUALITY, method=2)
        except TooManyPixels:
            return _Embedded(note=f"too large to show: more than {_MAX_PIXELS:,} pixels")
        except DataMissing:
            return _Embedded(note="the file no longer exists, or cannot be read")
        except (DataBroken, *DECODE_ERRORS):
            return _Embedded(note="the file is not a readable image")
        encoded = base64.b64encode(webp.getvalue()).decode()
        self.addresses.append(f"data:image/webp;base64,{encoded}")
        sha256 = hashlib.sha256(content).hexdigest()
        return _Embedded(index=len(self.addresses) - 1, sha256=sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Embedded:
    """An image file: its index in `Images.addresses` and its SHA-256, or why it is not shown."""

    index: int | None = None
    note: str = ""
    sha256: str = ""


def _content(path: Path) -> bytes:
    """The bytes of an image file; `DataBroken` for what Pillow would give to another program."""
    with suppress(OSError):  # which `read_image` names
        if path.exists() and not path.is_file():  # such as a pipe, which would never end
            raise DataBroken(f"`{path}` is not a file.", hint="name an image file")
    content = read_image(path)
    if image_suffix(content) is None:
        raise DataBroken(f"`{path}` is not an image.", hint="name an image file")
    check_end(content, path)
    return content


def _thumbnail(path: Path, content: bytes) -> Image.Image:
    if image_suffix(content) == ".jpg":  # Pillow decodes it at a reduced size, down to an eighth
        size_px(path, _MAX_PIXELS)
        with Image.open(io.BytesIO(content)) as image:
            image.thumbnail((_SIDE_PX, _SIDE_PX))
            small: Image.Image = image.convert("RGB")
            return small
    full = open_rgb(path, _MAX_PIXELS)
    full.thumbnail((_SIDE_PX, _SIDE_PX))
    return full


def sample_values(
    row: SampleRow, runs: Mapping[str, TaskRun], position: int, images: Images
) -> Values:
    """A sample for the template: its line in the list, and its details in every run.

    `position` is that in the logs. Adds its images to `images`.
    """
    samples = list(filter(None, row))
    points = [s.official.points for s in samples if isinstance(s.official, Scored)]
    filters = [f"{title}: {value}" for title, value in filters_of(row)]
    question = max((s.question for s in samples), key=_completeness)
    gold = max((s.gold for s in samples), key=_completeness)
    return {
        "id": plain(samples[0].id),
        "preview": _preview(question),
        "filters": json.dumps(filters),
        "position": position,
        "points": round(math.fsum(points) / len(points), 6) if points else "",
        "marks": list(map(_mark, row, runs.values())),
        "groups": [(kind, n) for kind, of_kind in samples[0].groups.items() for n in of_kind],
        "question": _pieces(question, images),
        "gold": _pieces(gold, images),
        "runs": [
            (name, sample and _run_values(sample, task, images))
            for sample, (name, task) in zip(row, runs.items(), strict=True)
        ],
    }


def _completeness(segments: Segments) -> tuple[int, bool]:
    """Another log may lack images of the question."""
    return sum(bool(s.image) and not s.problem for s in segments), bool(segments)


def _preview(question: Segments) -> str:
    texts = ((segment.text or "")[: 4 * _MAX_PREVIEW] for segment in question[:_MAX_PREVIEW])
    line = " ".join(" ".join(texts).split())
    return line if len(line) <= _MAX_PREVIEW else f"{line[: _MAX_PREVIEW - 1]}…"


def _mark(sample: Record | None, task: TaskRun) -> Values:
    """The points of a run in the list: official, and robust where they differ."""
    if sample is None:
        return {"text": "–", "share": 0, "hint": "not in this run"}
    official, robust = sample.official, sample.robust
    shown = [f"{v.points:.4g}" if isinstance(v, Scored) else NO_VALUE for v in (official, robust)]
    reasons = {v.reason: None for v in (official, robust) if isinstance(v, Unscored)}
    points = official.points if isinstance(official, Scored) else 0.0
    return {
        "text": " | ".join(shown) if sample.differs else shown[0],
        "share": round(points / task.benchmark.scale.full_marks, 3),
        "hint": ", ".join([f"official {shown[0]}", f"robust {shown[1]}", *reasons]),
    }


def _run_values(sample: Record, task: TaskRun, images: Images) -> Values:
    full_marks = f"{task.benchmark.scale.full_marks:g}"
    replies = [(judged.judge, r) for judged in sample.judgements for r in judged.result.replies]
    facts = {**judge_points(sample), **{shown_name(k): v for k, v in sample.facts.items()}}
    if len(task.signatures) > 1:
        facts["signature"] = str(sample.signature)
    return {
        "answer": _pieces(sample.answer, images),
        "replies": [_reply(reply, judge) for judge, reply in replies],
        "verdicts": [_verdict(kind, sample.verdict(kind), full_marks) for kind in SCORE_KINDS],
        "differs": sample.differs,
        "shares": _shares(sample),
        "facts": [(cut(title, MAX_NAME), _fact(value)) for title, value in facts.items()],
    }


def _reply(reply: JudgeReply, judge: Signature) -> Values:
    usage = reply.usage
    model = cut(reply.model, MAX_NAME) or "unnamed model"
    if other_models(judge, [reply.model]):
        model = f"{cut(judge.name, MAX_NAME)}, reply by {model}"
    details = [model, "from the cache" if reply.cached else "new reply", f"finish: {reply.finish}"]
    if usage.input_tokens or usage.output_tokens:
        details.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    if usage.cost_usd is not None:
        details.append(f"${usage.cost_usd:.5f}")
    return {"text": cut(reply.text, _MAX_TEXT), "details": " · ".join(details)}


def _verdict(kind: str, verdict: Verdict, full_marks: str) -> tuple[str, str, str, str]:
    """The kind, the points, of how many or why there are none, and the text that was read."""
    if isinstance(verdict, Unscored):
        return kind, NO_VALUE, verdict.reason, cut(verdict.detail, MAX_NAME)
    read = ", read from" if verdict.reading else ""
    reading = cut(verdict.reading, MAX_NAME)
    return kind, f"{verdict.points:.4g}", f"of {full_marks}{read}", reading


def _shares(sample: Record) -> list[tuple[str, list[str]]]:
    """Each component, and its percentage of full marks by each score."""
    shares = [sample.verdicts.shares.get(kind, {}) for kind in SCORE_KINDS]
    names = dict.fromkeys(name for of_kind in shares for name in of_kind)
    return [
        (cut(name, MAX_NAME), [_percent(of_kind, name) for of_kind in shares]) for name in names
    ]


def _percent(shares: Mapping[str, float], name: str) -> str:
    return f"{100 * shares[name]:.2f}" if name in shares else NO_VALUE


def _fact(value: str | float) -> str:
    return cut(value, _MAX_TEXT) if isinstance(value, str) else f"{round(value, 6):.15g}"


def _pieces(segments: Segments, images: Images) -> list[Values]:
    """Texts and images in their order, with notes on what is left out."""
    pieces: list[Values] = []
    n_images, characters = 0, _MAX_TEXT
    for segment in segments:
        if segment.text:
            pieces.append({"text": cut(segment.text, characters)})
            characters = max(0, characters - len(segment.text))
        if segment.image or segment.problem:
            n_images += 1
            if n_images <= _MAX_IMAGES:
                pieces.append(images.values(segment))
    if n_images > _MAX_IMAGES:
        more = counted(n_images - _MAX_IMAGES, "more image")
        pieces.append({"index": None, "note": f"and {more}", "prompt": ""})
    return pieces


def plain(text: str) -> str:
    r"""A text without characters that a page in UTF-8 cannot hold, or does not show.

    Control characters become their symbols, lone surrogates the replacement character.

    >>> plain("a\x00b\r\nc\ud83d")
    'a␀b\nc�'
    """
    return _UNSAFE.sub(_symbol, text)  # many times faster than `str.translate`


def _symbol(unsafe: re.Match[str]) -> str:
    character = unsafe[0][0]
    if character == "\r":
        return "\n"
    if character == "\x7f":
        return "␡"
    return chr(0x2400 + ord(character)) if character < " " else "�"


def cut(text: str, max_characters: int) -> str:
    """A text, shortened, with the number of characters left out.

    >>> cut("abcdef", 4)
    'abcd … (2 more characters in the log)'
    """
    left_out = len(text) - max_characters
    if left_out <= 0:
        return text
    return f"{text[:max_characters]} … ({counted(left_out, 'more character')} in the log)"


def file_name(image: str) -> str:
    r"""The name of a file without its folders, for display.

    >>> file_name("/data/images/kite.png"), file_name("C:\\images\\kite.png")
    ('kite.png', 'kite.png')
    """
    return PurePath(image.replace("\\", "/")).name[-80:]
