"""A scripted engine on a Ray cluster of this machine, in a process of its own:
`python local_engines.py FOLDER`.

The thread that connects ends before the engine is used. Prints the number of replies, and whether
Ray is connected.
"""

from __future__ import annotations

import sys
import threading
from functools import partial

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.ray_engines import RayEngines
from mmie_tasks.record.reply import JudgeReply
from support.ray_engines import ScriptedEngine


def main(folder: str) -> None:
    engines = RayEngines(limit=1, device="cpu", environment={}, actor_class=ScriptedEngine)
    start = partial(engines.start, {"folder": folder}, number=1, max_rows=4)
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    requests = [JudgeRequest(parts=(f"{number} cost=5",), max_tokens=1) for number in range(40)]
    replies = [
        outcome
        for _, outcome in engines.ask(requests, range(40))
        if isinstance(outcome, JudgeReply)
    ]
    engines.close()

    import ray

    print(f"{len(replies)} replies, connected: {ray.is_initialized()}")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
