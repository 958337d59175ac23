"""An issuer of OAuth 2 tokens: a real HTTP server on loopback."""

import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from tests.loopback import LoopbackServer


class Issuer(LoopbackServer):
    """Answers every request with `status` and `body`, at first a good token; `asked` holds each header and form."""

    def __init__(self, token: str) -> None:
        self.status = 200
        self.body = json.dumps({"access_token": token, "expires_in": 100}).encode()
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        super().__init__(self._handler(), "issuer")

    @property
    def url(self) -> str:
        """The address at which it gives tokens."""
        return f"{self.base_url}/token"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                issuer.asked.append((self.headers["Authorization"], form))
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(issuer.body)))
                # Whatever is sent back to a client must not end in its log.
                self.send_header("X-Asked", self.headers["Authorization"])
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, *_: object) -> None:
                """Say nothing on stderr."""

        return Handler
