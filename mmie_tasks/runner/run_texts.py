"""Saves the texts of a pair's writer, so that a killed run resumes from them.

A file has the text of one request, and stays until its sample is scored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MethodType

from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts, unwrap_generation_output
from loguru import logger

from mmie_tasks.answers.failures import NO_REPLY, failure_of
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.http.access import storage_name
from mmie_tasks.interleaved.protocols import STEP
from mmie_tasks.judges.served_model import served_model
from mmie_tasks.runner.evaluation import running_evaluation
from mmie_tasks.runner.pair_arguments import PairArguments
from mmie_tasks.runner.pair_writer import AskedSample

_DELIVERY = (
    *("base_url", "api_key", "timeout", "retry_backoff_s", "max_retries", "httpx_trust_env"),
    *("num_concurrent", "num_cpus", "batch_size", "prefix_aware_queue", "prefix_hash_chars"),
    *("adaptive_concurrency", "adaptive_min_concurrency", "adaptive_max_concurrency"),
    *("adaptive_target_latency_s", "adaptive_increase_step", "adaptive_decrease_factor"),
    "adaptive_failure_threshold",
)
"""Arguments of lmms-eval's chat clients that change no text; a server's port is named apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """The writer's output for one request, with the runner's counts of tokens by name, if any."""

    text: str
    tokens: Mapping[str, int] | None = None

    @classmethod
    def of(cls, output: object) -> WrittenText:
        """The text of a writer's output; `NO_REPLY` for null."""
        text, tokens = (None, None) if output is None else unwrap_generation_output(output)
        if text is None:
            text = NO_REPLY
        elif not isinstance(text, str):
            text = json.dumps(text, default=str)
        return cls(text=text, tokens=tokens and tokens.to_dict())

    @property
    def output(self) -> object:
        """The output for the runner."""
        if self.tokens is None:
            return self.text
        return GenerationResult(text=self.text, token_counts=TokenCounts(**self.tokens))


class RunTexts:
    """The files with the texts of all requests of a call, removed when the samples are scored."""

    def __init__(
        self,
        arguments: PairArguments,
        requests: Sequence[Instance],
        samples: Sequence[AskedSample | None],
    ) -> None:
        self._folder = cache_dir(os.environ) / "written"
        self._paths = _text_paths(self._folder, arguments, requests, samples)
        if evaluation := running_evaluation():
            for path in self._paths:
                evaluation.output.keep_until_scored(path)

    def read(self) -> dict[int, WrittenText]:
        """The texts of an earlier run, by the number of the request; a warning counts them."""
        texts = {i: text for i, path in enumerate(self._paths) if (text := _read(path))}
        if texts:
            logger.warning(
                f"interleaved: {len(texts):,} answers were written by an earlier run that was not "
                "finished, and are used. To have them written again, delete "
                f"`{self._folder}`."
            )
        return texts

    def save(self, outputs: Mapping[int, object]) -> None:
        """Save the texts of outputs, by the number of the request, except failures of the writer's
        API. An error of the disk is only a warning.
        """
        texts = {self._paths[i]: WrittenText.of(output) for i, output in outputs.items()}
        try:
            for path, written in texts.items():
                if not failure_of(written.text):
                    with atomic_write(path) as part:
                        part.write_text(json.dumps(asdict(written)))
        except OSError as error:
            logger.warning(
                "interleaved: what the writer writes cannot be saved "
                f"({error.strerror or error}): if this run is killed, it is written again."
            )


def _read(path: Path) -> WrittenText | None:
    """The text in a file; None if it cannot be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    match content:
        case {"text": str(text), "tokens": dict() | None as tokens}:
            return WrittenText(text=text, tokens=tokens)
    return None


def _text_paths(
    folder: Path,
    arguments: PairArguments,
    requests: Sequence[Instance],
    samples: Sequence[AskedSample | None],
) -> list[Path]:
    """The file of each text, named by the writer, the protocol, the request, the content of its
    sample and, for repeated requests, their number.
    """
    named = arguments.writer_arguments.items()
    options = sorted(f"{name}={value}" for name, value in named if name not in _DELIVERY)
    served = served_model(arguments.writer, arguments.writer_arguments, os.environ)
    server = storage_name(served.url) if served else None
    options += [f"{name}={value}" for name, value in arguments.added.items() if value]
    named_by = [arguments.writer, options, STEP.signature, server]
    writer = json.dumps([part for part in named_by if part is not None])
    times = Counter[str]()
    paths = []
    for request, sample in zip(requests, samples, strict=True):
        settings = [value for value in request.args if not isinstance(value, MethodType)]
        digest = sample and sample.digest
        key = json.dumps([settings, digest], sort_keys=True, default=str)
        times[key] += 1
        whole = f"{writer}\n{key}\n{times[key]}".encode(errors="surrogatepass")
        name = hashlib.sha256(whole).hexdigest()[:32]
        paths.append(folder / name[:2] / f"{name}.json")
    return paths
