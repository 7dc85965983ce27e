"""A judge that runs any program: it reads texts and image paths, and prints the reply."""

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from mmie_tasks.extend import (
    Judge,
    JudgeOptions,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
)


class CommandJudge(Judge):
    """``--judge "command:command=python3 grade.py"``."""

    class Options(JudgeOptions):
        """What the user may type, a pydantic model; every judge has ``cache``."""

        command: str

    @property
    def signature(self) -> Mapping[str, object]:
        """What moves a score: the program and its arguments."""
        return {"judge": "command", "model": self.options.command}

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Run the program once for each request."""
        for index, request in enumerate(requests):
            words = "\n".join(str(part) for part in request.parts)
            command = shlex.split(self.options.command)
            ran = subprocess.run(  # noqa: S603 - the user's own program
                command, input=words, capture_output=True, text=True, check=False
            )
            if ran.returncode:
                reason = ran.stderr.strip()[-200:] or f"it ended with {ran.returncode}"
                yield index, JudgeUnavailable(f"`{self.options.command}`: {reason}")
            else:
                yield index, JudgeReply(text=ran.stdout, model=self.options.command)
