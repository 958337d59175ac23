"""Keys and certificates of one test run, made by the command `openssl`: an authority, a server's and a client's."""

import subprocess
from pathlib import Path
from typing import Final

HOST: Final = "localhost"
"""The only name that the server's certificate has: whoever connects to 127.0.0.1 finds another host's certificate."""

KEY_PASSWORD: Final = "canary-key-password-7d1c"
"""The password that encrypts the client's key."""


class Certificates:
    """PEM files in a directory: `authority` trusts `server` and `client`; `stranger` is an authority of nobody here."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = directory / "authority.pem"
        self.stranger = directory / "stranger.pem"
        self.server = directory / "server.pem"
        self.server_key = directory / "server.key"
        self.client = directory / "client.pem"
        self.client_key = directory / "client.key"
        authority_key = directory / "authority.key"
        _make("authority", self.authority, authority_key)
        _make("stranger", self.stranger, directory / "stranger.key")
        signer = ["-CA", str(self.authority), "-CAkey", str(authority_key), "-addext", "basicConstraints=CA:FALSE"]
        _make("server", self.server, self.server_key, *signer, "-addext", f"subjectAltName=DNS:{HOST}")
        _make("client", self.client, self.client_key, *signer, password=KEY_PASSWORD)

    def keystore(self) -> str:
        """The server's key and certificate in one PEM text, as Kafka's broker reads them."""
        return self.server_key.read_text() + self.server.read_text()


def _make(name: str, certificate: Path, key: Path, *options: str, password: str = "") -> None:
    secrecy = ["-passout", f"pass:{password}"] if password else ["-nodes"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "2"]
    command += ["-subj", f"/CN={name}", "-keyout", str(key), "-out", str(certificate), *secrecy, *options]
    subprocess.run(command, check=True, capture_output=True)
