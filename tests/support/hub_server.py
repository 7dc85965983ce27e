"""A Hugging Face Hub on the loopback interface, limited to the routes that downloads need.

    with HubServer(mmie_files()) as hub:          # contents: see `support.hub_files`
        hub.files["owner/data", "a.json"] = b"{}" # another file
        hub.refuses(403, "GatedRepo")             # a status, and the Hub's code
        hub.hangs_after(1000)                     # a download stalls until the returned event
        hub.cuts_off(1000, 1)                     # a download ends before its end
        ...                                       # `support.hub_process.ask` at hub.url
    hub.requests      # the requests for files
    hub.downloads()   # the names of downloaded files, in order

Repositories of models and of data sets are one. Servers of a process use one port where they can,
so that the processes that have read it can be used again.
"""

import hashlib
import math
import re
import socket
import threading
from functools import cache
from urllib.parse import unquote

from support.loopback import LoopbackServer, Sent, sends

COMMIT = "c0ffee" * 6 + "c0ff"
SIGNATURE = "thisopensthefile"

_FILE = re.compile(r"/(?P<signed>signed/)?(datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_API = re.compile(r"/api/(?:datasets|models)/([^/]+/[^/]+)(?:/(tree|revision)/([^/]+))?")


class HubServer(LoopbackServer):
    faulty = ("GET file",)

    def __init__(self, files=None):
        super().__init__(port=usual_port())
        self.files = dict(files or {})
        self.commit = COMMIT
        self.forwards = False

    def start(self):
        try:
            super().start()
        except OSError:  # another server of this process has the port, or another process
            self.port = 0
            super().start()

    # The script.

    def refuses(self, status, code=""):
        """Refuse files and information."""
        routes = [f"{method} {kind}" for method in ("HEAD", "GET") for kind in ("file", "api")]
        self.then(refusal(status, code), math.inf, *routes)

    def hangs_after(self, count):
        """Send nothing more, once, `count` bytes into a download, until the event is set."""
        patience_ends = threading.Event()
        self.cuts_off(count, until=patience_ends)
        return patience_ends

    # The requests.

    @property
    def requests(self):
        return [request for request in self.log if request.route.endswith("file")]

    def ranges(self):
        """The requested range of each download, in order."""
        return [request.headers.get("range") for request in self.calls("GET file")]

    def downloads(self, method="GET"):
        """The names of the requested files, in order."""
        return [request.filename for request in self.calls(f"{method} file")]

    # The responses.

    def route(self, method, path, body):
        if file := _FILE.fullmatch(path):
            return "forward" if self.forwards and not file["signed"] else f"{method} file"
        return f"{method} api" if _API.fullmatch(path) else ""

    def answer(self, request):
        if api := _API.fullmatch(unquote(request.path)):
            return self._information(*api.groups())
        if file := _FILE.fullmatch(request.path):
            *_, repo, revision, name = file.groups()
            missing = self._missing(repo, revision, name)
            return refusal(404, missing) if missing else self._file(request, repo, revision, name)
        return refusal(404, "")  # such as the list of programs that huggingface_hub may ask for

    def _file(self, request, repo, revision, name):
        content = self.files[repo, name]
        described = {
            "ETag": f'"{sha256(content)}"',
            "X-Linked-Etag": f'"{sha256(content)}"',
            "X-Linked-Size": str(len(content)),
            "X-Repo-Commit": self.commit,
        }
        if request.route == "forward":  # to another host, as the Hub does with large files
            path = f"signed/{repo}/resolve/{revision}/{name}?Signature={SIGNATURE}"
            location = f"http://localhost:{self.port}/{path}"
            return Sent(status=302, headers={**described, "Location": location})
        headers = {**described, "Accept-Ranges": "bytes"}
        if (wanted := request.headers.get("range")) is None:
            return Sent(content, headers=headers)
        start = int(wanted.removeprefix("bytes=").split("-")[0])
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return Sent(content[start:], 206, headers)

    def _information(self, repo, kind, revision):
        """What `huggingface_hub` asks for about a repository, or its files and folders."""
        if missing := self._missing(repo, revision or "main"):
            return refusal(404, missing)
        files = {name: self.files[holder, name] for holder, name in self.files if holder == repo}
        if kind != "tree":
            siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            more = {"siblings": siblings, "private": False, "tags": []}
            return sends({"id": repo, "sha": self.commit, **more})
        folders = sorted({name.rpartition("/")[0] for name in files} - {""})
        entries = [
            {"type": "directory", "path": one, "size": 0, "oid": "0" * 40} for one in folders
        ]
        return sends([*entries, *(_entry(name, data) for name, data in files.items())])

    def _missing(self, repo, revision, name=None):
        if repo not in {holder for holder, _ in self.files}:
            return "RepoNotFound"
        if revision not in {"main", self.commit}:
            return "RevisionNotFound"
        return "" if name is None or (repo, name) in self.files else "EntryNotFound"


def refusal(status, code):
    return Sent(status=status, headers={"X-Error-Code": code} if code else {})


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def _entry(name, content):
    size, digest = len(content), sha256(content)
    lfs = {"oid": digest, "size": size, "pointerSize": 130}
    return {"type": "file", "path": name, "size": size, "oid": digest[:40], "lfs": lfs}


@cache
def usual_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
