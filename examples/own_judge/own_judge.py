"""A judge that runs any program: it reads texts and image paths, and prints the reply."""

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mmie_tasks.extend import JudgeReply, JudgeRequest, JudgeUnavailable, Outcome, signature_text


@dataclass(frozen=True, kw_only=True)
class CommandJudge:
    """``--judge command --judge_args "command=python3 grade.py"``."""

    command: str

    @property
    def signature(self) -> str:
        """What moves a score: the program and its arguments."""
        return signature_text(judge="command", model=self.command)

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Run the program once for each request."""
        for index, request in enumerate(requests):
            words = "\n".join(str(part) for part in request.parts)
            ran = subprocess.run(  # noqa: S603 - the user's own program
                shlex.split(self.command), input=words, capture_output=True, text=True, check=False
            )
            if ran.returncode:
                yield index, JudgeUnavailable(f"`{self.command}` ended with {ran.returncode}")
            else:
                yield index, JudgeReply(text=ran.stdout, model=self.command)
