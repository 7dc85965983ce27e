"""A loopback Hub with a small version of every asset, and a run of ``prefetch``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.benchmarks.milebench.download import PARTS, REPO
from support.example import archive
from support.hub_server import HubServer, ask
from support.mia_bench_hub import mia_bench_hub
from support.mmie_hub import mmie_hub
from support.model_hub import model_hub

OTHER_PROMPTS = str(Path(__file__).resolve().parents[2] / "examples" / "mmie" / "prompts.json")

PREFETCH = """
import io, os, sys
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.preflight.prefetch import plain_logs, run
sys.stderr = log = io.StringIO()
plain_logs()
{before}
try:
    answer = {{"output": run({arguments}, os.environ), "error": ""}}
except MmieTasksError as error:
    answer = {{"output": "", "error": f"{{type(error).__name__}}: {{error}}"}}
answer["log"] = log.getvalue()
"""


@dataclass(frozen=True)
class Done:
    """The output of a prefetch or its error, and its log."""

    output: str
    error: str
    log: str


@contextmanager
def full_hub(filler_bytes: int = 0) -> Iterator[HubServer]:
    """The three benchmarks and the checkpoint; of MileBench the archives 1 and 4."""
    with (
        model_hub() as hub,
        mmie_hub(filler_bytes=filler_bytes) as mmie,
        mia_bench_hub() as mia_bench,
    ):
        for part in (1, 4):
            hub.holds(REPO, f"MileBench_part{part}.tar.gz", archive(PARTS[part]))
        for other in (mmie, mia_bench):
            hub.files |= other.files
            hub.hashes |= other.hashes
        yield hub


def prefetch(
    hub: HubServer, home: Path, *arguments: str, before: str = "", **environment: str
) -> Done:
    """Run the command in a process of its own, whose every cache is below `home`.

    MMIE's official prompts are not ours to serve: others replace them.
    """
    code = PREFETCH.format(arguments=list(arguments), before=before)
    return Done(**ask(hub.url, home, code, **{"MMIE_OTHER_PROMPTS": OTHER_PROMPTS, **environment}))
