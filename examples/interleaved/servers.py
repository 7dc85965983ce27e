"""Runs a command with a scripted image server and judge on this machine.

``python servers.py COMMAND...``: ``{url}`` in the command is replaced by their address. The image
server draws words on a coloured sheet and refuses whatever is about the moon; the judge gives three
points, and one for every image.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image, ImageDraw, ImageFont

REFUSAL = {"error": {"message": "The moon is not drawn here.", "code": "moderation_blocked"}}


class Scripted(BaseHTTPRequestHandler):
    """Answers chat completions and image generations."""

    def do_GET(self) -> None:
        """The list of models."""
        self._send(
            200, {"object": "list", "data": [{"id": name} for name in ("sketch", "scripted-judge")]}
        )

    def do_POST(self) -> None:
        """A chat completion or an image."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/images/generations"):
            is_refused = "moon" in request["prompt"]
            self._send(400 if is_refused else 200, REFUSAL if is_refused else picture(request))
        else:
            self._send(200, completion(request))

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def completion(request: dict[str, Any]) -> dict[str, Any]:
    """The judge's reply."""
    contents = [message["content"] for message in request["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    text = "".join(part.get("text", "") for part in parts)
    shown = sum(part["type"] == "image_url" for part in parts)
    reply = f"### Feedback\nThere are {shown} images.\n### Score\n{min(6, shown + 3)}"
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": reply},
        "finish_reason": "stop",
    }
    usage = {
        "prompt_tokens": len(text) // 4,
        "completion_tokens": len(reply) // 4,
        "total_tokens": 0,
    }
    return {"id": "0", "object": "chat.completion", "created": 0, "model": request["model"],
            "choices": [choice],
            "usage": usage}  # fmt: skip


def picture(request: dict[str, Any]) -> dict[str, Any]:
    """The prompt in white on a colour that depends on prompt and seed."""
    width, height = map(int, request["size"].split("x"))
    digest = hashlib.sha256(f"{request['seed']} {request['prompt']}".encode()).digest()
    image = Image.new("RGB", (width, height), tuple(40 + byte // 2 for byte in digest[:3]))
    words = "\n".join(textwrap.wrap(request["prompt"], 24))
    ImageDraw.Draw(image).multiline_text(
        (30, 30), words, "white", ImageFont.load_default(size=width // 16)
    )
    file = io.BytesIO()
    image.save(file, "PNG")
    return {"created": 0, "data": [{"b64_json": base64.b64encode(file.getvalue()).decode()}]}


def main(command: list[str]) -> int:
    """Run a command while the servers run; returns its status."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    environment = {"OPENAI_API_KEY": "none", **os.environ}
    command = [part.replace("{url}", url) for part in command]
    status = subprocess.run(command, check=False, env=environment).returncode  # noqa: S603 - the Makefile's
    server.shutdown()
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
