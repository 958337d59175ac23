"""A real Kafka broker for tests: one KRaft process on loopback; `python -m bench.kafka.broker --port N` runs one."""

import argparse
import fcntl
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from kafka.errors import KafkaError

from bench.kafka.certificates import HOST, Certificates
from bench.kafka.listeners import Listeners
from bench.ports import free_port

POM = Path(__file__).with_name("pom.xml")
REPOSITORY = Path(__file__).parents[2]
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0

SHORT_LIVED: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a JVM that ends before its best code would repay what it costs to compile."""

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{advertised}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT{protocols}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
metadata.log.dir={metadata}
auto.create.topics.enable={auto_create}
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
log.retention.ms=-1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=100
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
metadata.max.idle.interval.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
{acls}{security}"""


class BrokerError(Exception):
    """The broker did not start, or is gone; the message ends with the last lines of its log."""


def missing_tools() -> list[str]:
    """The broker's needs that this machine lacks, in words; empty when all is there."""
    missing = []
    java = shutil.which("java")
    if java is None:
        missing.append("Java 17 or newer")
    else:
        printed = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True)
        version = printed.stderr.partition("java.specification.version = ")[2].split(maxsplit=1)
        # Java 8 and older call themselves 1.8 and the like.
        if not version or float(version[0]) < 17:
            missing.append(f"Java 17 or newer (found {version[0] if version else 'an unknown version'})")
    if shutil.which("mvn") is None:
        missing.append("Maven (mvn)")
    return missing


def jars(pom: Path = POM) -> Path:
    """The directory of the jars that `pom` names (the broker's), downloaded once into the cache whoever asks first.

    The cache is `.cache` in the repository, or TEST_CACHE_DIR. Raises BrokerError when Maven fails.
    """
    cache = Path(os.environ.get("TEST_CACHE_DIR") or REPOSITORY / ".cache") / "kafka"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"jars-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return target
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            partial = Path(scratch) / "jars"
            command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom)]
            command += ["dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
            options = " ".join([*os.environ.get("MAVEN_OPTS", "").split(), *SHORT_LIVED])
            environment = {**os.environ, "MAVEN_OPTS": options}
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise BrokerError(f"mvn could not fetch the jars:\n{_tail(done.stdout + done.stderr)}")
            partial.rename(target)
    return target


def archive() -> Path:
    """The JVM's archive of a broker's classes, written once: with it a start takes less than half of the CPU time.

    A JVM that can't write one leaves no file, and JVMs go without an archive that isn't there or isn't theirs.
    """
    java = Path(shutil.which("java") or "java").resolve()
    target = jars().with_suffix(f".{hashlib.sha256(bytes(java)).hexdigest()[:12]}.jsa")
    with target.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            partial = target.with_suffix(".partial")
            with Broker(java=[f"-XX:ArchiveClassesAtExit={partial}"]):
                pass
            if partial.exists():
                partial.rename(target)
    return target


class Broker:
    """One broker on 127.0.0.1 whose data and port outlive `stop` and `kill`, until `close`; `port` 0 is a free one.

    `secure` adds the listeners of `bench.kafka.listeners`, by openssl; `proxied` adds one on its first port that sends
    clients to its second, a proxy's; `data` is the directory of the logs; `transaction_version` is a level, None the
    newest; `acls`: it goes by ACLs; `auto_create`: it creates topics that it is asked for; `java` are options
    of the JVM in place of the archive of classes.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        secure: bool = False,
        proxied: tuple[int, int] | None = None,
        data: Path | None = None,
        transaction_version: int | None = None,
        acls: bool = False,
        auto_create: bool = False,
        java: Sequence[str] | None = None,
    ) -> None:
        self._options = [f"-XX:SharedArchiveFile={archive()}"] if java is None else list(java)
        first = free_port(1 + len(Listeners.names()))  # One block: ports that are drawn apart may be the same.
        self.port = port or first
        self._cluster_id = _kafka_id()
        self._directory = Path(tempfile.mkdtemp(prefix="rankstream-kafka-"))
        self._properties = self._directory / "server.properties"
        self._secure: Listeners | None = None
        if secure:
            certificates = Certificates(self._directory / "certificates")
            self._secure = Listeners(certificates, {name: first + 2 + n for n, name in enumerate(Listeners.names())})
        self._features = [] if transaction_version is None else ["-f", f"transaction.version={transaction_version}"]
        self._data = data or self._directory / "data"
        # Apart from the topics: a disk that is full, or a log that is damaged, is that of these alone.
        self._metadata = self._directory / "metadata"
        listener, proxy = (f",PROXIED://127.0.0.1:{port}" for port in proxied) if proxied else ("", "")
        self._properties.write_text(
            PROPERTIES.format(
                port=self.port,
                controller_port=first + 1,
                data=self._data,
                metadata=self._metadata,
                auto_create=str(auto_create).lower(),
                listeners=(self._secure.addresses("127.0.0.1") if self._secure else "") + listener,
                advertised=(self._secure.addresses(HOST) if self._secure else "") + proxy,
                protocols=(self._secure.protocol_map() if self._secure else "") + ",PROXIED:PLAINTEXT" * bool(proxied),
                security=self._secure.properties(self._directory) if self._secure else "",
                acls=f"authorizer.class.name={AUTHORIZER}\nallow.everyone.if.no.acl.found=true\n" * acls,
            )
        )
        self.log_path = self._directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: they use the broker, and can't end it."""
        return {**self.__dict__, "_process": None}

    @property
    def bootstrap(self) -> str:
        """The broker's address as `host:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the broker's process, which has been started."""
        assert self._pid is not None
        return self._pid

    @property
    def listeners(self) -> Listeners:
        """The listeners beside PLAINTEXT, of a broker that was made `secure`."""
        assert self._secure is not None
        return self._secure

    def start(self) -> None:
        """Start the broker and return once it takes requests; on the data of the last run, where there was one.

        Raises BrokerError when it ends or isn't ready within 60 s.
        """
        if not (self._data / "meta.properties").exists():
            self._format()
        self._process = self._java("kafka.Kafka", str(self._properties))
        self._pid = self._process.pid
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._ready():
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"the broker was not ready in {START_TIMEOUT_S:.0f} s:\n{self._log_tail()}")
            time.sleep(0.1)

    def _format(self) -> None:
        """Format the storage by Kafka's tool or, without a JVM, with the checkpoint that it wrote for another one."""
        options = [*self._features, *(self._secure.format_arguments if self._secure else ())]
        checkpoint, kept = self._metadata / "bootstrap.checkpoint", jars().with_suffix(".checkpoint")
        if not options and kept.exists():
            for directory in (self._data, self._metadata):
                directory.mkdir(parents=True, exist_ok=True)
                ids = {"node.id": 1, "directory.id": _kafka_id(), "version": 1, "cluster.id": self._cluster_id}
                written = "".join(f"{name}={value}\n" for name, value in ids.items())
                (directory / "meta.properties").write_text(written)
            shutil.copyfile(kept, checkpoint)
            return
        arguments = ["format", "-t", self._cluster_id, "-c", str(self._properties), *options]
        if self._java("kafka.tools.StorageTool", *arguments).wait():
            raise BrokerError(f"the storage could not be formatted:\n{self._log_tail()}")
        if not options:
            partial = kept.with_suffix(f".{os.getpid()}")
            shutil.copyfile(checkpoint, partial)
            partial.rename(kept)

    def logs(self, topic: str) -> list[Path]:
        """The files of the topic's records, of all partitions."""
        return sorted(self._data.glob(f"{topic}-[0-9]*/*.log"))

    def stop(self) -> None:
        """End the broker as an operator would, with its logs flushed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, as a crash would."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop the broker and delete its data."""
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def check(self) -> None:
        """Raise BrokerError unless the broker's process runs."""
        if self._pid is None:
            raise BrokerError("the broker has not been started")
        if self._process is None:
            ended, status = not Path(f"/proc/{self._pid}").exists(), "that its own process knows"
        else:
            ended, status = (code := self._process.poll()) is not None, str(code)
        if ended:
            raise BrokerError(f"the broker ended with status {status}:\n{self._log_tail()}")

    def create_topic(self, name: str, partitions: int = 4, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and return once every partition has a leader; KafkaError when the broker refuses."""
        self.create_topics({name: config or {}}, partitions)

    def create_topics(self, configs: Mapping[str, Mapping[str, str]], partitions: int) -> None:
        """Create topics, by their names, in one request: that costs the broker half of what one by one does."""
        self.check()
        topics = {
            name: {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config)}
            for name, config in configs.items()
        }
        with self.admin() as admin:
            admin.create_topics(topics, wait_for_metadata=True)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and return once another one may have its name."""
        with self.admin() as admin:
            admin.delete_topics([name])
            while name in admin.list_topics():
                self.check()

    def alter_topic(self, name: str, config: str, value: str) -> None:
        """Set one configuration of a topic and return once the broker goes by it, some time after it agreed to it."""
        # A change shows before its logs have it. It takes the next one up after that, and leaves out what is not known.
        following = ("file.delete.delay.ms", str(random.randrange(60_000, 600_000)))
        with self.admin() as admin:
            for key, wanted in ((config, value), following):
                admin.alter_configs([ConfigResource("topic", name, {key: wanted})])
                asked = [ConfigResource("topic", name)]
                while admin.describe_configs(asked)["topic"][name].get(key, {}).get("value") != wanted:
                    self.check()

    def admin(self, timeout_s: float = 10.0) -> KafkaAdminClient:
        """An admin client of this broker, for the caller to close; KafkaError without an answer in `timeout_s`."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=int(timeout_s * 1000))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        # Hundreds of tests leave a thousand topics, some 300 MiB. Out of memory a broker would be fenced and never end.
        options = ["-Xmx1g", "-XX:+ExitOnOutOfMemoryError", *SHORT_LIVED, "-cp", f"{jars()}/*", *self._options]
        # At level info the reason of an end is followed by pages about its shutdown.
        options.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        with self.log_path.open("ab") as log:
            # In a session of its own, so that Ctrl-C ends the tests first and the broker through them.
            return subprocess.Popen(
                ["java", *options, main, *arguments],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _ready(self) -> bool:
        self.check()
        try:
            # An open port isn't enough: until it is unfenced the broker knows no broker to put a topic on.
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            with self.admin(timeout_s=2) as admin:
                cluster = admin.describe_cluster()
                # The id tells it from another broker that already had the port.
                return bool(cluster["brokers"]) and cluster["cluster_id"] == self._cluster_id
        except (OSError, KafkaError):
            return False

    def _end(self, how: signal.Signals) -> None:
        process, self._process, self._pid = self._process, None, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log_tail(self) -> str:
        return _tail(self.log_path.read_text(errors="replace"))


def _kafka_id() -> str:
    """16 bytes in base64, as Kafka's ids: hexadecimal digits and an end without surplus bits are that, too."""
    return f"{uuid.uuid4().hex[:21]}A"


def _tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.splitlines()[-lines:])


def main() -> None:
    """Run one broker until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=9092, help="of 127.0.0.1; 0 chooses a free one")
    for end in (signal.SIGTERM, signal.SIGINT):
        signal.signal(end, lambda *_: sys.exit(0))
    with Broker(parser.parse_args().port) as broker:
        print(broker.bootstrap, flush=True)
        while True:
            broker.check()
            time.sleep(1)


if __name__ == "__main__":
    main()
