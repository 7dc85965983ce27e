"""A loopback server with scripted answers, and a file to serve."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SOURCE = '''
STORY = """Judge '### Score\\n' by
its {feeling}."""
METHOD = "Judge the method."
SUM = 'Judge the sum.'

def get_prompt(data_id):
    if "SA" in data_id:
        return STORY + "Q {question} A {answer}"
    elif "PBL" in data_id:
        return METHOD + "Q {question} A {answer}"
    elif "MSR" in data_id:
        return SUM + "Q {question} A {answer} R {gt_answer}"
    else:
        print("?")
'''
"""Python in the form of the official file with MMIE's prompts; the words are ours."""

CONTENT = SOURCE.encode()


class Server:
    """Sends scripted answers in order, and repeats the last."""

    def __init__(self):
        self.answers, self.paths, self.headers, self.stop = [], [], [], threading.Event()

    def gives(self, *answers):
        self.answers = list(answers)

    def handle(self, request):
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer(self, request)


class Quiet(ThreadingHTTPServer):
    def handle_error(self, *_):
        """Clients may hang up: some tests do so."""


def sends(content, status=200, length=None, **headers):
    def answer(_, request):
        request.send_response(status)
        request.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)

    return answer


def hangs(server, _):
    server.stop.wait(5)


def hangs_up(_, request):
    request.close_connection = True


def forwards(where):
    return sends(b"", 302, Location=where)


@contextmanager
def serving():
    server_state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server_state.handle(self)

        def log_message(self, *_):
            pass

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server_state.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield server_state
        finally:
            server_state.stop.set()
            server.shutdown()
            thread.join()
