"""A chat model over HTTP that says what a test tells it to."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer

Reply = Callable[[str, str], str | None]
"""Of the system's and the user's message: the completion, or None for an overloaded server."""


@contextmanager
def chat_server(reply: Reply) -> Iterator[str]:
    """Serve `/chat/completions`; gives the base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            system, user = (message["content"] for message in asked["messages"])
            said = reply(system, user)
            answer = json.dumps({"choices": [{"message": {"role": "assistant", "content": said}}]}).encode()
            self.send_response(503 if said is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with LoopbackServer(Handler, "chat") as server:
        yield server.base_url
