"""The stored texts of the writer in a run: a run that was killed resumes from them.

They stay until their samples are scored and logged. `mmie_tasks.interleaved.text_files` has the
form of a file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MethodType

from lmms_eval.api.instance import Instance
from loguru import logger

from mmie_tasks.answers.failures import failure_of
from mmie_tasks.core.files import cache_dir
from mmie_tasks.http.access import storage_name
from mmie_tasks.interleaved.text_files import WrittenText, read_text, save_texts, text_path
from mmie_tasks.judging.served_model import served_model
from mmie_tasks.runner.evaluation import running_evaluation
from mmie_tasks.runner.pair_arguments import PairArguments
from mmie_tasks.runner.pair_requests import AskedSample
from mmie_tasks.runner.writer_output import text_of

_DELIVERY = (
    *("base_url", "api_key", "timeout", "retry_backoff_s", "max_retries", "httpx_trust_env"),
    *("num_concurrent", "num_cpus", "batch_size", "prefix_aware_queue", "prefix_hash_chars"),
    *("adaptive_concurrency", "adaptive_min_concurrency", "adaptive_max_concurrency"),
    *("adaptive_target_latency_s", "adaptive_increase_step", "adaptive_decrease_factor"),
    "adaptive_failure_threshold",
)
"""Arguments of lmms-eval's chat clients that change no text; a server with a port counts."""


class RunTexts:
    """The files with the texts of some requests; the runner's log of samples ends their use.

    Args:
        arguments: Of the pair.
        requests: All requests of a call of the model.
        samples: Their samples; None for tasks without pictures in answers.
    """

    def __init__(
        self,
        arguments: PairArguments,
        requests: Sequence[Instance],
        samples: Sequence[AskedSample | None],
    ) -> None:
        self._folder = cache_dir(os.environ) / "written"
        self._paths = _text_paths(self._folder, arguments, requests, samples)
        if evaluation := running_evaluation():
            for request, path in zip(requests, self._paths, strict=True):
                evaluation.output.keep_until_logged(request.task_name, path)

    def read(self) -> dict[int, WrittenText]:
        """The texts of an earlier run, by the request's number; a warning says how many."""
        texts = {i: text for i, path in enumerate(self._paths) if (text := read_text(path))}
        if texts:
            logger.warning(
                f"interleaved: {len(texts):,} answers were written by an earlier run that was not "
                "finished, and are used. To have them written again, delete "
                f"`{self._folder}`."
            )
        return texts

    def save(self, outputs: Mapping[int, object]) -> None:
        """Save the texts of a writer's outputs, by the request's number, but those that are a
        failure of its API.
        """
        texts = {self._paths[i]: text_of(output) for i, output in outputs.items()}
        save_texts({path: text for path, text in texts.items() if not failure_of(text.text)})


def _text_paths(
    folder: Path,
    arguments: PairArguments,
    requests: Sequence[Instance],
    samples: Sequence[AskedSample | None],
) -> list[Path]:
    """The file of each request's text: named by the writer, the protocol, the request and the
    content of its sample; of repeated requests by their number, too.
    """
    named = arguments.writer_arguments.items()
    options = sorted(f"{name}={value}" for name, value in named if name not in _DELIVERY)
    served = served_model(arguments.writer, arguments.writer_arguments, os.environ)
    server = storage_name(served.url) if served else None
    options += [f"{name}={value}" for name, value in arguments.added.items() if value]
    named_by = [arguments.writer, options, arguments.protocol.signature, server]
    writer = json.dumps([part for part in named_by if part is not None])
    times = Counter[str]()
    paths = []
    for request, sample in zip(requests, samples, strict=True):
        settings = [value for value in request.args if not isinstance(value, MethodType)]
        digest = sample and sample.digest
        key = json.dumps([settings, digest], sort_keys=True, default=str)
        times[key] += 1
        paths.append(text_path(folder, f"{writer}\n{key}\n{times[key]}"))
    return paths
