"""Repository information of the loopback Hub, as far as `datasets` requests it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote

_ROUTE = re.compile(
    r"/api/datasets/(?P<repo>[^/]+/[^/?]+)"
    r"(/(?P<what>tree|paths-info|revision)/(?P<revision>[^/?]+)(?P<path>/[^?]*)?)?(\?.*)?"
)


@dataclass(frozen=True)
class Question:
    """A parsed request to the API."""

    repo: str
    what: str
    revision: str
    path: str
    paths: tuple[str, ...]  # paths, of `paths-info`


def question(path: str, body: bytes, content_type: str) -> Question | None:
    """The parsed request; None if it is not for the API."""
    route = _ROUTE.fullmatch(unquote(path))
    if route is None:
        return None
    fields = json.loads(body) if "json" in content_type else parse_qs(body.decode())
    paths = fields.get("paths", [])
    return Question(
        repo=route["repo"],
        what=route["what"] or "revision",
        revision=route["revision"] or "main",
        path=(route["path"] or "").strip("/"),
        paths=(paths,) if isinstance(paths, str) else tuple(paths),
    )


def reply(
    request: Question, files: Mapping[str, bytes], hashes: Mapping[str, str], sha: str
) -> Any:
    """The answer, as JSON."""
    if request.what == "revision":
        siblings = [{"rfilename": name, "size": len(files[name])} for name in files]
        return {"id": request.repo, "sha": sha, "siblings": siblings, "private": False, "tags": []}
    folders = {name.rpartition("/")[0] for name in files} - {""}
    entries = [_folder(path) for path in sorted(folders)]
    entries += [_file(name, files[name], hashes[name]) for name in sorted(files)]
    if request.what == "paths-info":
        return [entry for entry in entries if entry["path"] in request.paths]
    below = f"{request.path}/" if request.path else ""
    return [entry for entry in entries if str(entry["path"]).startswith(below)]


def _file(name: str, content: bytes, sha256: str) -> dict[str, Any]:
    size = len(content)
    lfs = {"oid": sha256, "size": size, "pointerSize": 130}
    return {"type": "file", "path": name, "size": size, "oid": sha256[:40], "lfs": lfs}


def _folder(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "size": 0, "oid": "0" * 40}
