"""``mmie-tasks eval --sketch N``: a model answers the first N samples of each task, no judge is
asked, and one HTML file shows what it was asked and what it answered.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from loguru import logger

from mmie_tasks.answers.images import ImageResolver, resolve_images
from mmie_tasks.answers.parsing import parse_answer
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.wording import counted, listed
from mmie_tasks.results.embedded_image import embed_image
from mmie_tasks.results.page import rendered
from mmie_tasks.results.page_data import Json, plain, segments_json
from mmie_tasks.runner.model_pair import ModelPair
from mmie_tasks.runner.pair_check import workload
from mmie_tasks.runner.run_summary import print_at_exit

FILE = "sketch.html"
_ASSETS = Path(__file__).resolve().parent / "assets"
_MAX_SIDE_PX, _QUALITY = 1024, 80
_MAX_IMAGES = 50  # of an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A page to write, and the arguments of lmms-eval, without the output folder."""

    file: Path
    for_runner: tuple[str, ...]


def split_sketch(arguments: Sequence[str]) -> Sketch:
    """The sketch of a command line with ``--sketch N``.

    The file goes into the folder of ``--output_path``, or into the current one. An invalid number
    ends the process with status 2, as argparse does.
    """
    parser = argparse.ArgumentParser(prog="mmie-tasks eval", add_help=False, allow_abbrev=False)
    parser.add_argument("--sketch", type=_positive, required=True, metavar="N")
    parser.add_argument("--output_path", "--output-path", default=".", help=argparse.SUPPRESS)
    parsed, remaining = parser.parse_known_args(arguments)
    limited = (*remaining, "--limit", str(parsed.sketch), "--predict_only")
    return Sketch(file=Path(parsed.output_path, FILE).absolute(), for_runner=limited)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a number of samples, at least 1")
    return int(text)


def write_sketch(tasks: Sequence[tuple[Any, Benchmark]], model: object, file: Path) -> None:
    """Write the page about what a model has answered, and print its path when the process ends.

    Args:
        tasks: The runner's tasks with their benchmarks; all requests are answered.
        model: The tested model.
        file: The page.
    """
    pair = model if isinstance(model, ModelPair) else None
    name = pair.pair if pair else type(model).__name__
    resolver = ImageResolver((file.parent, Path()), file.parent / "sketch-pictures")
    samples = [
        _sample(task, benchmark, request, pair, resolver)
        for task, benchmark in tasks
        for request in task.instances
    ]
    stages = pair.stages.items() if pair else ()
    lines = [
        f"{title}: {stage.done:,} in {stage.seconds:.1f} s; those of earlier runs are kept."
        for title, stage in stages
    ]
    lines += [_whole(*task, pair) for task in tasks]
    values = {"title": plain(f"Sketch: {name}"), "lines": lines, "samples": samples}
    try:
        with atomic_write(file) as part:
            part.write_text(rendered(_ASSETS, (), values), encoding="utf-8")
    except OSError as error:
        logger.warning(f"`{file}` cannot be written: {error.strerror or error}.")
        return
    print_at_exit(f"\nmmie-tasks: {counted(len(samples), 'sample')}, not judged: {file}")


def _sample(
    task: Any,  # noqa: ANN401 - the runner's, like the request
    benchmark: Benchmark,
    request: Any,  # noqa: ANN401
    pair: ModelPair | None,
    resolver: ImageResolver,
) -> Json:
    doc = task.eval_docs_no_media[request.doc_id]
    question = task.config.doc_to_text(doc, task.lmms_eval_specific_kwargs)
    limit = benchmark.picture_limit(doc) if benchmark.picture_limit else 0
    if pair and pair.words and limit:
        question += f"\n\n{pair.words.instruction(limit)}"
    answer = parse_answer(list(map(str, request.resps)))
    segments = resolve_images(answer, resolver, request.task_name, request.doc_id)
    embed = partial(embed_image, max_side_px=_MAX_SIDE_PX, quality=_QUALITY)
    pieces = segments_json(segments, "the answer", embed, _MAX_IMAGES)
    notes = [f"no answer: {answer.failure}"] if answer.failure else []
    if facts := answer.drawing:
        notes += [f"not drawn: {listed(facts.failed)}"] if facts.failed else []
        notes += [f"not used: {listed(facts.unused)}"] if facts.unused else []
    return {
        "name": plain(f"{request.task_name}: {doc.get('id', request.doc_id)}"),
        "question": plain(question),
        "answer": [{"prompt": "", **piece} for piece in pieces],
        "notes": notes,
    }


def _whole(task: Any, benchmark: Benchmark, pair: ModelPair | None) -> str:  # noqa: ANN401
    docs, name = task.eval_docs_no_media, task.config.task
    if benchmark.picture_limit is None:
        return f"The whole of {benchmark.title} ({name}): {len(docs):,} requests."
    work = workload(docs, benchmark.picture_limit, pair.price_usd if pair else None)
    return f"The whole task `{name}`: {work}."
