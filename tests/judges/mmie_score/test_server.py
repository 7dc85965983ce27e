"""The server of a run: it starts, is started again, and ends with the run, with all its processes.

A small program is in the place of vLLM: it lists a model, and has a worker that ignores SIGTERM.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mmie_tasks.judges.mmie_score import server as server_module
from mmie_tasks.judges.mmie_score.server import JudgeServer

ROOT = Path(__file__).resolve().parents[3]
VLLM = """
import http.server, json, subprocess, sys
print("loading the weights", flush=True)
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", stubborn, sys.argv[2]])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "MMIE-Score@0123456789ab"}]}).encode())
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
PROGRAM = f"""
import os, sys
sys.path[:0] = [{str(ROOT)!r}]
from mmie_tasks.judges.mmie_score.serve import WITH_PARENT, serve_with_parent
mark, _, port, option = sys.argv[1:]
assert option == WITH_PARENT
sys.exit(serve_with_parent([sys.executable, "-c", {VLLM!r}, port, mark], os.environ))
"""
RUN = f"""
import os, sys, time
sys.path[:0] = [{str(ROOT)!r}]
from mmie_tasks.judges.mmie_score.server import JudgeServer
JudgeServer([sys.executable, "-c", sys.argv[1], sys.argv[2]], os.environ).start()
print("started", flush=True)
time.sleep(600)
"""


def processes(mark):
    """Those of a server that run."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if mark in (process.info["cmdline"] or ())
        and process.info["status"] != psutil.STATUS_ZOMBIE
        and process.pid != os.getpid()
    ]


def wait_until(holds):
    ends_at = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.05)


@pytest.fixture
def mark(tmp_path, monkeypatch):
    """An argument of all processes of the server, of which none is left over."""
    monkeypatch.setattr(server_module, "_POLL_S", 0.05)
    yield str(tmp_path)
    for process in processes(str(tmp_path)):
        process.kill()


def test_a_server_that_dies_is_started_again_and_ends_with_all_of_its_processes(mark, logs):
    server = JudgeServer([sys.executable, "-c", PROGRAM, mark], {**os.environ, "LOCAL_RANK": "3"})
    server.start()
    assert any("ready" in line for line in logs)
    before = {process.pid for process in processes(mark)}
    assert len(before) == 3
    assert all("LOCAL_RANK" not in process.environ() for process in processes(mark))
    serving = [one for one in processes(mark) if "http.server" in "".join(one.cmdline()[2:3])]
    serving[-1].kill()

    def is_back():
        return len(processes(mark)) == 3 and not before & {one.pid for one in processes(mark)}

    wait_until(is_back)
    server._wait(server._process)
    assert any("ended with status" in line and "loading the weights" in line for line in logs)
    server.close()
    assert processes(mark) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_its_run_however_that_ends(mark, number):
    run = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RUN, PROGRAM, mark],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert run.stdout.readline() == b"started\n"
    assert len(processes(mark)) >= 3
    run.send_signal(number)
    run.communicate()
    wait_until(lambda: not processes(mark))
