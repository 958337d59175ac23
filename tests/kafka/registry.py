"""A stand-in of a schema registry: the part of Confluent's REST API that producers and rankstream use, on loopback."""

import base64
import json
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.loopback import LoopbackServer

PATIENCE = 30.0

Json = dict[str, Any]


@dataclass(frozen=True)
class Version:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    schema: Json


class Registry(LoopbackServer):
    """Answers as a registry does, or every request with `status`; `paths` counts what was asked for.

    `authorization` is the header that it expects, if any. While `open` is not set, no request is answered.
    """

    def __init__(self, authorization: str | None = None) -> None:
        self.authorization = authorization
        self.status: int | None = None
        self.body: bytes | None = None
        self.open = threading.Event()
        self.open.set()
        self.paths: Counter[str] = Counter()
        self.headers: list[Json] = []
        self._versions: list[Version] = []
        super().__init__(self._handler(), "schema registry")

    def register(self, schema: str, kind: str = "AVRO", subject: str = "events", references: Any = ()) -> int:
        """Register a schema; its id."""
        wanted = {"schema": schema, "schemaType": kind, "references": list(references)}
        for each in self._versions:
            if each.schema == wanted and each.subject == subject:
                return each.id
        number = 1 + sum(each.subject == subject for each in self._versions)
        made = Version(subject, number, 100 + len(self._versions), wanted)
        self._versions.append(made)
        return made.id

    def answer(self, method: str, path: str, body: Json) -> tuple[int, Any]:
        """The status and the body of the answer."""
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", id_]:
                found = [each for each in self._versions if each.id == int(id_)]
                return (200, self._shown(found[0].schema)) if found else (404, _error(40403, "Schema not found"))
            case ["subjects"]:
                return 200, sorted({each.subject for each in self._versions})
            case ["subjects", subject, "versions"] if method == "POST":
                schema, kind = body["schema"], body.get("schemaType", "AVRO")
                return 200, {"id": self.register(schema, kind, subject, body.get("references") or ())}
            case ["subjects", subject, "versions", number]:
                for each in self._versions:
                    if (each.subject, str(each.version)) == (subject, number):
                        return 200, {
                            "subject": subject,
                            "version": each.version,
                            "id": each.id,
                            **self._shown(each.schema),
                        }
                return 404, _error(40402, "Version not found")
        return 404, _error(404, "HTTP 404 Not Found")

    @staticmethod
    def _shown(schema: Json) -> Json:
        # A registry leaves out the type of a schema of Avro, and references where there are none.
        left_out = {"schemaType": "AVRO", "references": []}
        return {name: value for name, value in schema.items() if left_out.get(name) != value}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer({})

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: Json) -> None:
                path = urlsplit(self.path).path
                registry.paths[path] += 1
                registry.headers.append(dict(self.headers))
                registry.open.wait(PATIENCE)
                if registry.authorization not in (None, self.headers["Authorization"]):
                    status, said = 401, _error(401, "Unauthorized")
                elif registry.status is not None:
                    status, said = registry.status, _error(registry.status, "no")
                else:
                    status, said = registry.answer(self.command, path, body)
                content = registry.body if registry.body is not None else json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing on stderr."""

        return Handler


def _error(code: int, message: str) -> Json:
    return {"error_code": code, "message": message}


def basic(username: str, password: str) -> str:
    """The header of a user and a password."""
    return f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"


def framed(id_: int, payload: bytes) -> bytes:
    """A payload in Confluent's wire format."""
    return b"\x00" + id_.to_bytes(4) + payload
