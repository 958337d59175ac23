"""The processes of a flow under supervision: what ends non-zero is started again, as Kubernetes would, and counted."""

import signal
import threading
import time
from pathlib import Path
from typing import Final, Self

from tests.integration.deployment import PATIENCE, Deployment, Flow, wait_until

_LOOK: Final = 0.1
_BACKOFF: Final = 1.0


class Replica:
    """A place in the fleet, in which one process after another runs under the same name."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        self._deployment = deployment
        self.name = name
        self.wanted = False
        self.restarts = 0
        self.memory = 0
        """Bytes, the most that any process here had."""
        self.flow: Flow | None = None
        self.lock = threading.RLock()
        self._ended_at = 0.0

    @property
    def running(self) -> Flow:
        """The process; fails if none was started."""
        assert self.flow is not None, f"{self.name} was never started"
        return self.flow

    def start(self, *, wait: bool = True) -> Self:
        """Start a process; `wait` until it, or what replaces it, is in its group."""
        with self.lock:
            self.flow = self._deployment.start(replica=self.name, wait=False)
            self.wanted = True
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Return once the process is in its group."""
        wait_until(self.ready, PATIENCE)

    def ready(self) -> bool:
        """True if there is a process and it is in its group."""
        return self.running.process.poll() is None and self.running.ready()

    def kill(self) -> None:
        """End the process at once; it stays away until `start`."""
        with self.lock:
            self.wanted = False
            self.running.kill()

    def stop(self) -> int:
        """Ask the process to stop, and wait until it has; its exit code."""
        with self.lock:
            self.wanted = False
        return self.running.terminate()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self.running.process.send_signal(number)

    def resident(self) -> int:
        """Bytes of memory that the process has now; 0 if it is gone."""
        flow = self.flow
        if flow is None or flow.process.poll() is not None:
            return 0
        return _resident(flow.process.pid)

    def look(self) -> None:
        """Note the memory, and start the process again if it ended by itself and non-zero."""
        self.memory = max(self.memory, self.resident())
        with self.lock:
            if not self.wanted or self.flow is None:
                return
            status = self.flow.process.poll()
            if status is None:
                self._ended_at = 0.0
            elif not self._ended_at:
                self._ended_at = time.monotonic()
            elif time.monotonic() - self._ended_at > _BACKOFF:
                self._ended_at = 0.0
                self.restarts += 1
                self.start(wait=False)


class Fleet:
    """The replicas by name, under supervision."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._replicas: dict[str, Replica] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __getitem__(self, name: str) -> Replica:
        if name not in self._replicas:
            self._replicas[name] = Replica(self._deployment, name)
        return self._replicas[name]

    @property
    def wanted(self) -> list[Replica]:
        """Those that should run."""
        return [replica for replica in list(self._replicas.values()) if replica.wanted]

    @property
    def restarts(self) -> int:
        """The number of times that a process ended by itself."""
        return sum(replica.restarts for replica in self._replicas.values())

    @property
    def memory(self) -> int:
        """Bytes, the most that any process had."""
        return max((replica.memory for replica in self._replicas.values()), default=0)

    def logs(self) -> list[Path]:
        """Every process's log, in the order of their starts."""
        return [flow.log for flow in self._deployment.flows]

    def wait_ready(self) -> None:
        """Return once all that should run are in their group."""
        for replica in self.wanted:
            replica.wait_ready()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for replica in self.wanted:
            replica.kill()

    def _supervise(self) -> None:
        while not self._stop.wait(_LOOK):
            for replica in list(self._replicas.values()):
                replica.look()


def _resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
