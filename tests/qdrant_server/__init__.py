"""A stand-in for a Qdrant server: the embedded engine over HTTP on loopback, as a server of 1.19 behaves.

`python -m tests.qdrant_server --port 6333 --path DIRECTORY` serves until it is interrupted.
"""

from tests.qdrant_server.access import Keys
from tests.qdrant_server.behaviour import Behaviour
from tests.qdrant_server.web import application, running, serve

__all__ = ["Behaviour", "Keys", "application", "running", "serve"]
