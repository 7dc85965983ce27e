"""The engine of the judge `mmie_score` on the tiny golden checkpoint, and what it is held against.

Everything is read when it is first asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np
import torch
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score import prompt
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, Located, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention
from mmie_tasks.judges.mmie_score.engine.engine import Engine
from mmie_tasks.judges.mmie_score.engine.model import (
    Failed,
    Finished,
    Result,
    Row,
    TextModel,
    Vision,
    Work,
)
from mmie_tasks.judges.mmie_score.engine.pages import PagePool, SharedPrefixes
from mmie_tasks.judges.mmie_score.engine.steps import PlainDecoder, Prefill, Schedule
from mmie_tasks.judges.mmie_score.memory import Budget
from mmie_tasks.judges.mmie_score.pixels import normalized
from mmie_tasks.judges.mmie_score.preparing import Inputs
from support import internvl_golden as golden
from support import stock_internvl as stock

CPU = torch.device("cpu")
LONG_AFTER = 256  # tokens, of the tiny checkpoint


@contextmanager
def one_thread() -> Iterator[None]:
    """The matrices are tiny: with several threads most of the time goes by in waiting."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def checkpoint() -> Checkpoint:
    return open_checkpoint(Located(folder=golden.CHECKPOINT, name="golden"))


@cache
def model() -> Any:
    return load_model(checkpoint(), device=CPU, dtype=torch.float32)


@cache
def golden_works() -> tuple[Work, ...]:
    """Those of the golden cases, made of requests; a work's key is the number of its case."""
    found = checkpoint()
    inputs = Inputs(facts=found.facts, tokenizer=found.tokenizer)
    return tuple(
        inputs.work(key, JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens))
        for key, case in enumerate(golden.cases())
    )


def text_work(key: int, ids: Iterable[int], max_new_tokens: int = 12) -> Work:
    return Work(key=key, ids=list(ids), max_new_tokens=max_new_tokens)


def drawn_ids(seed: int, count: int) -> list[int]:
    """A text of pieces without any special token."""
    random = Random(seed)  # noqa: S311 (a test's numbers)
    return [1, *(random.randrange(3, 980) for _ in range(count - 1))]


def reply(output: Sequence[int]) -> str:
    return prompt.finish(checkpoint().tokenizer.decode(output))


@cache
def _stock(ids: tuple[int, ...], max_new_tokens: int) -> tuple[list[int], torch.Tensor]:
    return _generated((list(ids), None), max_new_tokens)


@cache
def _stock_model() -> Any:
    """The model with transformers' own rotary embedding, which is right for one row at a time."""
    found: Any = load_model(checkpoint(), device=CPU, dtype=torch.float32)
    text = found.model.language_model
    text.rotary_emb = Phi3RotaryEmbedding(text.config)
    return found


def _generated(asked: stock.Prompt, max_new_tokens: int) -> tuple[list[int], torch.Tensor]:
    with one_thread():
        [found] = stock.generate_with_logits(
            _stock_model(), [asked], max_new_tokens=max_new_tokens, facts=checkpoint().facts
        )
    return found.ids, found.logits


def stock_output(work: Work) -> tuple[list[int], torch.Tensor]:
    """What transformers' ``generate()`` makes of a work alone: ids, and logits (steps, vocab)."""
    if work.tiles is None:
        return _stock(tuple(work.ids), work.max_new_tokens)
    pixels = normalized(torch.from_numpy(work.tiles), torch.float32)
    return _generated((work.ids, pixels), work.max_new_tokens)


class ListFeed:
    """Hands over what it holds, in order; where chance has it, only to who waits."""

    def __init__(self, held: Iterable[Work | Failed], late: Random | None = None) -> None:
        self._held, self._late = list(held), late

    def get(self, *, wait: bool) -> Work | Failed | None:
        if not self._held or (not wait and self._late is not None and self._late.random() < 0.6):
            return None
        return self._held.pop(0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How an engine is made; `pages` None: room for all."""

    page_tokens: int = 64
    pages: int | None = None
    rows: int = 24
    chunk_tokens: int = 300
    vision_tiles: int = 7
    sharing: bool = True
    fixed: bool = False


class Checked:
    """A part of the engine, before each step of which something is looked at."""

    def __init__(self, part: Any, before: Callable[[], None]) -> None:
        self._part, self._before = part, before

    def step(self, *args: Any) -> torch.Tensor:
        self._before()
        found: torch.Tensor = self._part.step(*args)
        return found


def check_books(
    pool: PagePool, prefixes: SharedPrefixes | None, live: Sequence[Row], page_tokens: int
) -> None:
    """Every page is free, or held once by each of its rows and by what is kept.

    And what is still to be written goes to pages that no other row has, and image features go when
    the prompt is stored.
    """
    held = Counter(page for row in live for page in row.pages)
    over = [pool.holders(page) - held[page] for page in range(pool.size)]
    assert set(over) <= {0, 1}
    assert sum(over) == len(prefixes or ())
    assert pool.free == sum(not pool.holders(page) for page in range(pool.size))
    for row in live:
        assert len(set(row.pages)) == len(row.pages)
        assert row.features is None or not row.output
        assert len(row.pages) * page_tokens >= row.work.most_tokens
        first = row.stored if row.left else len(row.work.ids) + len(row.output) - 1
        assert all(held[page] == 1 for page in row.pages[first // page_tokens :])


@dataclass(kw_only=True)
class Made:
    """An engine whose books are checked before each step, and when it is done.

    Attributes:
        logits: By key, of each token generated; those of a row that starts again count once.
        most_live: Rows that were alive at once, at most.
    """

    engine: Engine
    pool: PagePool
    prefixes: SharedPrefixes | None
    logits: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)
    most_live: int = 0

    def check(self) -> None:
        """As `check_books`."""
        live = self.engine.schedule.live
        self.most_live = max(self.most_live, len(live))
        check_books(self.pool, self.prefixes, live, self.engine.budget.page_tokens)

    def check_empty(self) -> None:
        """Nobody is alive, and what is not free is kept."""
        self.check()
        assert not self.engine.schedule.live
        assert not self.engine.schedule.waiting
        kept = len(self.prefixes or ())
        assert self.pool.free + kept == self.pool.size

    def note(self, key: int, before: int, logits: torch.Tensor) -> None:
        self.logits.setdefault(key, {})[before] = logits.clone()

    def results(
        self, held: Iterable[Work | Failed], *, late: Random | None = None, settled: Any = None
    ) -> dict[int, Result]:
        """Everything, by key; each work comes back once."""
        found: dict[int, Result] = {}
        with one_thread():
            for result in self.engine.run(ListFeed(held, late), settled=settled, watch=self.note):
                assert result.key not in found
                found[result.key] = result
        self.check_empty()
        return found

    def outputs(self, works: Iterable[Work], **how: Any) -> dict[int, list[int]]:
        """The tokens of works of which none may fail."""
        return {key: finished(result).output for key, result in self.results(works, **how).items()}


def made(plan: Plan, *, wrap: Callable[[str, Any], Any] = lambda _, part: part) -> Made:
    """An engine.

    Args:
        plan: How.
        wrap: What is put in the place of a part, given its name (``vision``, ``prefill``,
            ``decoder``) and the part.
    """
    size = plan.page_tokens
    pages = plan.pages or -(-9000 // size) + 24
    text = TextModel(model(), pages=pages + 1, page_tokens=size)
    attention, pool = SdpaAttention(size), PagePool(pages)
    image_token_id = checkpoint().facts.image_token_id
    prefixes = SharedPrefixes(pool, size, image_token_id) if plan.sharing else None
    prefill = Prefill(text, attention, image_token_id, plan.rows if plan.fixed else None)

    def before() -> None:
        result.check()

    engine = Engine(
        schedule=Schedule(
            pool=pool,
            prefixes=prefixes,
            page_tokens=size,
            long_after=checkpoint().facts.long_after,
            most_rows=plan.rows,
        ),
        vision=wrap("vision", Vision(model(), fixed=plan.fixed)),
        prefill=Checked(wrap("prefill", prefill), before),  # type: ignore[arg-type]
        decoder=Checked(wrap("decoder", PlainDecoder(text, attention)), before),
        end_token_id=checkpoint().facts.end_token_id,
        budget=budget(plan, pages),
        fixed=plan.fixed,
    )
    result = Made(engine=engine, pool=pool, prefixes=prefixes)
    return result


def budget(plan: Plan, pages: int) -> Budget:
    return Budget(
        pages=pages,
        page_tokens=plan.page_tokens,
        longest_pages=1,
        rows=plan.rows,
        chunk_tokens=plan.chunk_tokens,
        vision_tiles=plan.vision_tiles,
        weight_bytes=0,
        page_bytes=0,
        step_bytes=0,
    )


def finished(result: Result) -> Finished:
    assert isinstance(result, Finished), result
    return result


def failed(result: Result) -> Failed:
    assert isinstance(result, Failed), result
    return result


def furthest(one: torch.Tensor, other: Any) -> float:
    """The largest difference of two arrays."""
    return float(np.abs(one.numpy() - np.asarray(other)).max())
