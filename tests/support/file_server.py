"""A server on the loopback interface that gives the answers it is told, and a file to give."""

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
    """Gives the answers it is told, in order, the last one again and again."""

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
        """A client that hangs up in the middle is part of the play."""


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
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            told.handle(self)

        def log_message(self, *_):
            pass

    with Quiet(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield told
        finally:
            told.stop.set()
            server.shutdown()
            thread.join()
