"""Made-up requests in the proportions of MMIE's, for measurements."""

import random
from typing import NamedTuple

from PIL import Image

from mmie_tasks.judges.base import JudgeRequest
from support.random_checkpoint import REAL, TINY_SHAPE, Shape

GENERATED = (512, 512)  # pixels; the size of generated images, 1 tile
IMAGE_SIZES = (  # of a request; the first ones are photographs
    (GENERATED, GENERATED, GENERATED),
    ((640, 480), GENERATED, GENERATED),
    ((500, 375), GENERATED, GENERATED),
    ((640, 480), (500, 333), GENERATED, GENERATED),
    ((1280, 720), GENERATED),
    ((500, 375), (640, 480), GENERATED),
    ((500, 333), GENERATED, GENERATED, GENERATED),
    ((1024, 768),),
)
RUBRIC_TOKENS, TEXT_TOKENS = 700, 450  # the latter of question and answer together
WORDS = ("the", "and", "then", "with", "step", "slowly", "picture", "water", "cut", "fold", "it")
REAL_TILE_PX = 448
TOKENS_PER_WORD = 1.9  # about, of the golden tokenizer


class Size(NamedTuple):
    """A model, and how much smaller its requests are than real ones.

    Prompts shrink like the tokens of a tile. Replies shrink less: a CPU has less arithmetic for
    each byte it moves, and prompts would take a larger share of the time than on a GPU.
    """

    shape: Shape
    prompts_by: int
    replies_by: int


SIZES = {
    "real": Size(shape=REAL, prompts_by=1, replies_by=1),
    "tiny": Size(shape=TINY_SHAPE, prompts_by=28, replies_by=40),
}


def requests(size, count, seed, folder, *, compress_level=6):
    generator = random.Random(seed)  # noqa: S311 - made-up data
    rubric = _words(generator, RUBRIC_TOKENS / size.prompts_by)
    generated = []
    for number in range(count):
        texts = [_words(generator, TEXT_TOKENS / size.prompts_by / 3) for _ in range(3)]
        paths = [
            _image(generator, size_px, size, folder / f"{number}-{n}.png", compress_level)
            for n, size_px in enumerate(IMAGE_SIZES[number % len(IMAGE_SIZES)])
        ]
        is_runaway = number % 24 == 5
        reply = 1024 if is_runaway else min(max(generator.gauss(300, 80), 120), 700)
        generated.append(
            JudgeRequest(
                parts=(rubric, paths[0], texts[0], *paths[1:], *texts[1:]),
                max_tokens=round(reply / size.replies_by),
            )
        )
    return generated


def _words(generator, tokens):
    return " ".join(generator.choices(WORDS, k=max(1, round(tokens / TOKENS_PER_WORD)))) + ". "


def _image(generator, size_px, size, path, compress_level):
    """An image of noise with as many tiles as the real one."""
    width, height = (side * size.shape.image_px // REAL_TILE_PX for side in size_px)
    small = (max(1, width // 8), max(1, height // 8))
    noise = Image.frombytes("RGB", small, generator.randbytes(3 * small[0] * small[1]))
    noise.resize((width, height)).save(path, compress_level=compress_level)
    return path
