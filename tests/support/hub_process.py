"""Processes that download from a `HubServer`, with the real clients.

`huggingface_hub` reads its settings when it is imported, so what talks to a server runs in a
process of its own: `ask`. That is a fork of a process that has imported `huggingface_hub`, where
the settings are those of most tests.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import mmie_tasks
from support.fork_server import LINK, ForkServer, Script
from support.hub_server import usual_port

PACKAGE = Path(mmie_tasks.__file__).parents[1]
TOKEN = "hf_thisisnotarealtoken"

# Sleeps are cut short; downloads come in small chunks, so that half a file is something to resume.
PROGRAM = """
import json, sys, time
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.01))
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = 1024
from mmie_tasks.core.errors import MmieTasksError
try:
    scope = {}
    exec(sys.argv[1], scope)
    answer = scope["answer"]
except MmieTasksError as error:
    answer = {"error": type(error).__name__, "message": str(error)}
print(json.dumps(answer))
"""


# The libraries know their home as a symbolic link; the settings get the name that the test knows.
OWN_HOME = """
import os
from huggingface_hub import constants
os.dup2(os.open("{stdout}", os.O_WRONLY | os.O_CREAT), 1)
for name, value in vars(constants).items():
    if isinstance(value, str) and "/{link}" in value:
        real = os.path.realpath(value.partition("/{link}")[0] + "/{link}")
        setattr(constants, name, real + value.partition("/{link}")[2])
"""

LIBRARIES = (  # of the programs that tests ask
    *("huggingface_hub.hf_api", "huggingface_hub.file_download", "datasets", "tqdm.auto"),
    *("huggingface_hub._snapshot_download", "torch", "safetensors", "PIL.WebPImagePlugin"),
    *("pydantic", "yaml", "loguru", "filelock", "tabulate", "pyarrow.parquet", "psutil"),
)


def environment(hub_url, home, **more):
    """The environment of a process that uses this hub only, with all caches below `home`."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(PACKAGE),
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": hub_url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DOWNLOAD_TIMEOUT": "300",  # what hangs, hangs until the test goes on
        "HF_HUB_ETAG_TIMEOUT": "300",
        "MMIE_TASKS_CACHE": str(home / "cache"),
        "NO_PROXY": "*",
        **more,
    }


def ask(hub_url, home, code, **more):
    """Run `code` in a new process and return its variable `answer`.

    An error of ours comes back as ``{"error": class name, "message": text}``.
    """
    variables = environment(hub_url, home, **more)
    with tempfile.TemporaryDirectory() as folder:
        program, stdout, stderr = (Path(folder, name) for name in ("program.py", "out", "err"))
        own_home = OWN_HOME.format(stdout=stdout, link=LINK)
        program.write_text(f"{own_home}{PROGRAM}", encoding="utf-8")
        with stdout.open("wb") as output, stderr.open("wb") as errors:
            if _forks().can_run(variables):
                script = Script(
                    target=str(program), arguments=(code,), folder=folder, environment=variables
                )
                status = _forks().run(script, errors, 300)
            else:
                status = start(hub_url, home, code, output, errors, **more).wait(300)
        answer, log = stdout.read_text(), stderr.read_text()
    assert status == 0, log
    assert TOKEN not in answer + log
    return json.loads(answer.splitlines()[-1])


@cache
def _forks():
    return ForkServer(environment(f"http://127.0.0.1:{usual_port()}", Path("/nowhere")), LIBRARIES)


def start(hub_url, home, code, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more):
    """Start `code` in a new process, which prints its variable `answer`."""
    command, variables = [sys.executable, "-c", PROGRAM, code], environment(hub_url, home, **more)
    return subprocess.Popen(command, env=variables, stdout=stdout, stderr=stderr, text=True)


def assets(home, repo):
    """The folder with what is made of a repository."""
    return home / "hf/assets/mmie-tasks" / repo.replace("/", "--")
