"""Requests in the proportions of MMIE's, for measurements: made up, and as many as are wanted."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from mmie_tasks.judges.base import JudgeRequest
from support.random_checkpoint import REAL, REDUCED, TINY_SHAPE, Shape

DRAWN = (512, 512)  # pixels; what models draw, 1 tile
PICTURES = (  # of a request; the first ones are photographs
    (DRAWN, DRAWN, DRAWN),
    ((640, 480), DRAWN, DRAWN),
    ((500, 375), DRAWN, DRAWN),
    ((640, 480), (500, 333), DRAWN, DRAWN),
    ((1280, 720), DRAWN),
    ((500, 375), (640, 480), DRAWN),
    ((500, 333), DRAWN, DRAWN, DRAWN),
    ((1024, 768),),
)
RUBRIC_TOKENS, TEXT_TOKENS = 700, 450  # the latter of question and answer together
WORDS = ("the", "and", "then", "with", "step", "slowly", "picture", "water", "cut", "fold", "it")
REAL_TILE_PX, REAL_TILE_TOKENS = 448, 256
TOKENS_A_WORD = 1.9  # about, of the golden tokenizer


@dataclass(frozen=True, kw_only=True)
class Size:
    """A model, and by how much its requests are smaller than real ones.

    Prompts shrink as a tile's tokens do. Replies shrink less on a CPU, which has less arithmetic
    for each byte it moves: prompts would else take a share of the time that they have on no GPU.
    """

    shape: Shape
    samples: int
    alone: int
    rows: int
    prompts_by: int
    replies_by: int


SIZES = {
    "real": Size(shape=REAL, samples=256, alone=8, rows=64, prompts_by=1, replies_by=1),
    "reduced": Size(shape=REDUCED, samples=128, alone=16, rows=64, prompts_by=28, replies_by=2),
    "tiny": Size(shape=TINY_SHAPE, samples=8, alone=2, rows=4, prompts_by=28, replies_by=40),
}


def requests(size: Size, count: int, seed: int, folder: Path) -> list[JudgeRequest]:
    dice = random.Random(seed)  # noqa: S311 - made-up data
    rubric = _words(dice, RUBRIC_TOKENS / size.prompts_by)
    found = []
    for number in range(count):
        texts = [_words(dice, TEXT_TOKENS / size.prompts_by / 3) for _ in range(3)]
        shown = PICTURES[number % len(PICTURES)]
        paths = [
            _picture(dice, each, size, folder / f"{number}-{n}.png") for n, each in enumerate(shown)
        ]
        runs_away = number % 24 == 5
        reply = 1024 if runs_away else min(max(dice.gauss(300, 80), 120), 700)
        found.append(
            JudgeRequest(
                parts=(rubric, paths[0], texts[0], *paths[1:], *texts[1:]),
                max_tokens=round(reply / size.replies_by),
            )
        )
    return found


def _words(dice: random.Random, tokens: float) -> str:
    return " ".join(dice.choices(WORDS, k=max(1, round(tokens / TOKENS_A_WORD)))) + ". "


def _picture(dice: random.Random, pixels: tuple[int, int], size: Size, path: Path) -> Path:
    """Noise, as many tiles large as the real picture is."""
    width, height = (side * size.shape.image_px // REAL_TILE_PX for side in pixels)
    small = (max(1, width // 8), max(1, height // 8))
    noise = Image.frombytes("RGB", small, dice.randbytes(3 * small[0] * small[1]))
    noise.resize((width, height)).save(path)
    return path
