"""Draws the images that texts ask for, and stores them, so that each is drawn once.

The file of an image is named by the SHA-256 of its prompt and seed, its folder by that of the
drawer's signature. A file is written in one step, so one that exists is whole.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import (
    DrawingFacts,
    read_drawn_answer,
    write_drawn_answer,
    write_undrawn_answer,
)
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.core.wording import counted, listed
from mmie_tasks.drawing import protocol
from mmie_tasks.drawing.drawer import Drawer, ImageRequest, NotDrawn
from mmie_tasks.drawing.registry import open_drawer
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import drawing_text

_GIVE_UP = 16
"""Failures in a row after which a drawer is dead. A refused or unusable image is a failure only of
a drawer that has drawn nothing yet, as with an option that its server does not know."""

_Outcomes: TypeAlias = "Mapping[ImageRequest, Path | NotDrawn]"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndrawnAnswer:
    """A text that may ask for images, of which the judge sees at most `limit`; with 0, none is
    drawn.
    """

    sample_id: str
    text: str
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDrawer:
    """A drawer and the folder of its stored images."""

    drawer: Drawer
    folder: Path

    @classmethod
    def open(cls, choice: str, environment: Mapping[str, str]) -> AnswerDrawer:
        """Open and check a drawer by its choice; raises the errors of `open_drawer` and of
        `Drawer.check`.
        """
        drawer = open_drawer(choice, environment)
        drawer.check()
        name = hashlib.sha256(drawer.signature.encode()).hexdigest()[:16]
        folder = cache_dir(environment).absolute() / "drawn" / name
        return cls(drawer=drawer, folder=folder)

    def draw(self, answers: Sequence[UndrawnAnswer], *, shows_bar: bool) -> list[str]:
        """The answers as JSON with their images (`mmie_tasks.answers.drawn`), without those that
        could not be drawn; a line of the log counts these.

        Raises:
            DataMissing: The drawer is dead; what it has drawn is stored.
            MmieTasksError: The drawer cannot be used.
        """
        steps = [_steps(answer) for answer in answers]
        requests = [
            request
            for answer, read in zip(answers, steps, strict=True)
            for request in _requests(answer, read)
        ]
        outcomes = self._outcomes(dict.fromkeys(requests), shows_bar=shows_bar)
        signature = drawing_text(protocol.SIGNATURE, self.drawer.signature)
        texts: list[str] = []
        all_facts: list[DrawingFacts] = []
        for answer, read in zip(answers, steps, strict=True):
            if read_drawn_answer(answer.text):  # of a run with a drawer
                texts.append(answer.text)
                continue
            facts = _facts(answer, read, outcomes, signature)
            texts.append(_drawn(answer, read, outcomes, facts))
            all_facts.append(facts)
        _log(all_facts, outcomes)
        return texts

    def _outcomes(self, requests: Iterable[ImageRequest], *, shows_bar: bool) -> _Outcomes:
        """The file of each image, or why there is none; an image is stored as it arrives."""
        paths = {request: self._path(request) for request in requests}
        outcomes: dict[ImageRequest, Path | NotDrawn]
        outcomes = {request: path for request, path in paths.items() if path.is_file()}
        missing = [request for request in paths if request not in outcomes]
        hidden = {} if shows_bar else {"disable": True}  # if shown, TQDM_DISABLE may hide it
        has_drawn, failures = bool(outcomes), 0
        with (
            closing(self.drawer.draw(missing)) as drawn,
            tqdm(desc="Drawing", total=len(paths), initial=len(outcomes), **hidden) as bar,
        ):
            for index, outcome in drawn:
                bar.update()
                request = missing[index]
                if isinstance(outcome, NotDrawn):
                    outcomes[request] = outcome
                    failures += outcome.reason == "unavailable" or not has_drawn
                    is_all = not has_drawn and failures == len(missing)
                    if is_all or failures >= _GIVE_UP:
                        raise DataMissing(
                            f"{counted(failures, 'image')} in a row could not be drawn, the last: "
                            f"{outcome.detail.rstrip('.')}.",
                            hint="correct that, then run again: what was drawn is stored",
                        )
                    continue
                has_drawn, failures = True, 0
                with atomic_write(paths[request]) as part:
                    part.write_bytes(outcome)
                outcomes[request] = paths[request]
        return outcomes

    def _path(self, request: ImageRequest) -> Path:
        content = f"{request.seed}\n{request.prompt}".encode(errors="surrogatepass")
        name = hashlib.sha256(content).hexdigest()
        return self.folder / name[:2] / f"{name}.png"


def _steps(answer: UndrawnAnswer) -> protocol.Steps:
    """What the answer asks for; nothing if it may have no images, is none, or has images."""
    read = read_answer([answer.text])
    if not answer.limit or read.failure or read.images or not read.text.strip():
        return protocol.Steps(segments=(), unused={})
    steps = protocol.read_steps(read.text, answer.limit)
    if read.thinking and steps.segments:
        return replace(steps, unused={**steps.unused, "thinking": 1})
    return steps


def _requests(answer: UndrawnAnswer, steps: protocol.Steps) -> list[ImageRequest]:
    """The images of an answer; a seed comes from the sample and the image's number."""
    prompts = [segment.prompt for segment in steps.segments if segment.prompt]
    seeds = (
        hashlib.sha256(f"{answer.sample_id}\n{number}".encode(errors="surrogatepass")).digest()
        for number in range(len(prompts))
    )
    return [
        ImageRequest(prompt=prompt, seed=int.from_bytes(seed[:4], "big") >> 1)
        for prompt, seed in zip(prompts, seeds, strict=True)
    ]


def _facts(
    answer: UndrawnAnswer, steps: protocol.Steps, outcomes: _Outcomes, signature: str
) -> DrawingFacts:
    drawn = [outcomes[request] for request in _requests(answer, steps)]
    failed = Counter[str](outcome.reason for outcome in drawn if isinstance(outcome, NotDrawn))
    count = len(drawn) - failed.total()
    return DrawingFacts(signature=signature, drawn=count, failed=dict(failed), unused=steps.unused)


def _drawn(
    answer: UndrawnAnswer, steps: protocol.Steps, outcomes: _Outcomes, facts: DrawingFacts
) -> str:
    if not steps.segments:
        return write_undrawn_answer(answer.text, facts)
    requests = iter(_requests(answer, steps))
    segments: list[Segment] = []
    for segment in steps.segments:
        if not segment.prompt:
            segments.append(segment)
        elif isinstance(outcome := outcomes[next(requests)], Path):
            segments.append(replace(segment, image=str(outcome)))
    return write_drawn_answer(segments, facts)


def _log(all_facts: Sequence[DrawingFacts], outcomes: _Outcomes) -> None:
    """Log one line about all answers, and one reason of each kind."""
    failed, unused = Counter[str](), Counter[str]()
    for facts in all_facts:
        failed.update(facts.failed)
        unused.update(facts.unused)
    line = f"{len(all_facts):,} answers with {sum(facts.drawn for facts in all_facts):,} images"
    line += f"; not drawn: {listed(failed)}" if failed else ""
    line += f"; not used of their texts: {listed(unused)}" if unused else ""
    logger.log("WARNING" if failed else "INFO", "drawing: {}", line)
    details = {one.reason: one.detail for one in outcomes.values() if isinstance(one, NotDrawn)}
    for reason, detail in details.items():
        logger.warning("drawing: {}: {}", reason, detail)
