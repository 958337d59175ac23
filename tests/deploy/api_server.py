"""A Kubernetes API server that has Secrets, as far as Helm asks one when it renders."""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

_KINDS = {
    "v1": ("ConfigMap", "Pod", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("StatefulSet",),
    "batch/v1": ("Job",),
    "networking.k8s.io/v1": ("NetworkPolicy",),
    "policy/v1": ("PodDisruptionBudget",),
}
"""The objects that the chart makes."""

_NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


def _discovery() -> Iterator[tuple[str, dict[str, Any]]]:
    """The answers that tell a client which kinds there are."""
    yield "/version", {"major": "1", "minor": "31", "gitVersion": "v1.31.0"}
    yield "/api", {"kind": "APIVersions", "versions": ["v1"]}
    groups = []
    for version, kinds in _KINDS.items():
        names = [
            {"name": f"{kind.lower()}s", "namespaced": True, "kind": kind, "singularName": "", "verbs": ["get"]}
            for kind in kinds
        ]
        root = "/api" if version == "v1" else "/apis"
        yield f"{root}/{version}", {"kind": "APIResourceList", "groupVersion": version, "resources": names}
        if root == "/apis":
            entry = {"groupVersion": version, "version": "v1"}
            groups.append({"name": version.partition("/")[0], "versions": [entry], "preferredVersion": entry})
    yield "/apis", {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


@contextmanager
def serving(secrets: Iterable[Mapping[str, Any]], directory: Path) -> Iterator[Path]:
    """Serve these Secrets; a kubeconfig that leads there."""
    answers = dict(_discovery())
    for secret in secrets:
        meta = secret["metadata"]
        answers[f"/api/v1/namespaces/{meta['namespace']}/secrets/{meta['name']}"] = dict(secret)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.partition("?")[0])
            body = json.dumps(answer if answer is not None else _NOT_FOUND).encode()
            self.send_response(200 if answer is not None else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Requests are not news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kubeconfig = directory / "kubeconfig"
    at = {"server": f"http://127.0.0.1:{server.server_address[1]}"}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "it", "cluster": at}],
                "users": [{"name": "it", "user": {}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "current-context": "it",
            }
        )
    )
    try:
        yield kubeconfig
    finally:
        server.shutdown()
        server.server_close()
