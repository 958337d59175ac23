"""Values that cannot work: the chart says so, and renders nothing."""

from typing import Any

import pytest

from tests.deploy.chart import template

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no broker": (
        "minimal",
        {"config": {"kafka": {"bootstrap_servers": ""}}},
        "config.kafka.bootstrap_servers: set it to the host:port of your brokers",
    ),
    "no section": ("minimal", {"config": {"kafka": None}}, "config.kafka.bootstrap_servers: set it"),
    "no index": ("minimal", {"config": {"qdrant": {"url": ""}}}, "config.qdrant.url: set it to the address"),
    "an index in a pod": (
        "minimal",
        {"config": {"qdrant": {"path": "/data"}}},
        "config.qdrant.path: an index in a pod ends with the pod; set config.qdrant.url",
    ),
    "one name for all replicas": (
        "minimal",
        {"config": {"delivery": {"replica": "search"}}},
        "config.delivery.replica: leave it out; each replica is named after its pod",
    ),
    "no health port": ("minimal", {"config": {"telemetry": {"port": None}}}, "config.telemetry.port: the probes need"),
    "any health port": ("minimal", {"config": {"telemetry": {"port": 0}}}, "config.telemetry.port: the probes need"),
    "no telemetry": ("minimal", {"config": {"telemetry": None}}, "config.telemetry.port: the probes need a port"),
    "a health port for the pod alone": (
        "minimal",
        {"config": {"telemetry": {"host": "127.0.0.1"}}},
        "config.telemetry.host: probes come from outside the pod; leave it out",
    ),
    "nothing to run": (
        "minimal",
        {"search": {"enabled": False}, "indexing": {"enabled": False}},
        "search.enabled, indexing.enabled, feedback.enabled: one of them must be true",
    ),
    "a key in the ConfigMap": (
        "minimal",
        {"config": {"qdrant": {"api_key": "hunter2"}}},
        "config.qdrant.api_key: a ConfigMap is no place for a secret; see secrets",
    ),
    "a password in the ConfigMap": (
        "minimal",
        {"config": {"kafka": {"sasl": {"password": "hunter2"}}}},
        "config.kafka.sasl.password: a ConfigMap is no place for a secret; see secrets",
    ),
    "a key in what a server gets": (
        "minimal",
        {"config": {"chat": {"body": {"nested": {"api_key": "hunter2"}}}}},
        "config.chat.body.nested.api_key: a ConfigMap is no place for a secret; see secrets",
    ),
    "a registry's password in the ConfigMap": (
        "minimal",
        {"config": {"kafka": {"schema_registry": {"url": "http://r", "password": "hunter2"}}}},
        "config.kafka.schema_registry.password: a ConfigMap is no place for a secret; see secrets",
    ),
    "a secret from two places": (
        "managed-kafka",
        {"secrets": {"kafka.sasl.password": {"name": "kafka", "key": "password"}}},
        "secrets.kafka.sasl.password, config.kafka.sasl.password_file: set one of them",
    ),
    "no mechanism": (
        "minimal",
        {"config": {"kafka": {"security_protocol": "SASL_SSL"}}},
        "config.kafka.sasl.mechanism: security_protocol SASL_SSL needs it",
    ),
    "no password": (
        "managed-kafka",
        {"config": {"kafka": {"sasl": {"password_file": None}}}},
        "secrets.kafka.sasl.password: SCRAM-SHA-512 needs it, or config.kafka.sasl.password_file",
    ),
    "no partitions": ("minimal", {"config": {"kafka": {"partitions": None}}}, "config.kafka.partitions: set it to"),
    "idle replicas": (
        "minimal",
        {"search": {"replicas": 9}},
        "search.replicas: 9 is more than config.kafka.partitions, 8: further replicas would be idle",
    ),
    "idle replicas of indexing": ("minimal", {"indexing": {"replicas": 9}}, "indexing.replicas: 9 is more than"),
    "idle replicas of feedback": ("everything", {"feedback": {"replicas": 13}}, "feedback.replicas: 13 is more than"),
    "feedback without its topic": (
        "minimal",
        {"feedback": {"enabled": True}},
        "config.kafka.topics.feedback: the feedback flow needs it; name the topic",
    ),
    "feedback without the topic of preferences": (
        "minimal",
        {"feedback": {"enabled": True}, "config": {"kafka": {"topics": {"feedback": "f"}}}},
        "config.kafka.topics.preferences: the feedback flow needs it; name the topic",
    ),
    "feedback without a secret": (
        "minimal",
        {
            "feedback": {"enabled": True},
            "config": {"kafka": {"topics": {"feedback": "f", "preferences": "p"}}},
            "generateCursorSecret": False,
        },
        "secrets.cursor.signing_secret: the feedback flow needs it; name that of the search flow",
    ),
    "KEDA beyond the partitions": (
        "managed-kafka",
        {"search": {"autoscaling": {"maxReplicas": 7}}},
        "search.autoscaling.maxReplicas: 7 is more than config.kafka.partitions, 6: further replicas would be idle",
    ),
    "KEDA between nothing": (
        "everything",
        {"search": {"autoscaling": {"minReplicas": 5, "maxReplicas": 4}}},
        "search.autoscaling.minReplicas: 5 is more than maxReplicas, 4",
    ),
    "KEDA with a file that it can't read": (
        "managed-kafka",
        {"config": {"kafka": {"tls": {"ca_file": "/elsewhere/ca.pem"}}}},
        "config.kafka.tls.ca_file: KEDA cannot read /elsewhere/ca.pem: no entry of secretMounts has this directory;"
        " set keda.triggerAuthentication",
    ),
    "KEDA with a token": (
        "managed-kafka",
        {
            "config": {
                "kafka": {
                    "sasl": {
                        "mechanism": "OAUTHBEARER",
                        "username": None,
                        "password_file": None,
                        "token_file": "/var/run/token",
                    }
                }
            }
        },
        "config.kafka.sasl.token_file: KEDA cannot use it; set keda.triggerAuthentication",
    ),
}

MISSPELT: dict[str, tuple[dict[str, Any], str]] = {
    "value": ({"serach": {"replicas": 2}}, "serach"),
    "value of a flow": ({"search": {"replica": 2}}, "replica"),
    "autoscaling of feedback": ({"feedback": {"autoscaling": {"enabled": True}}}, "autoscaling"),
    "secret": ({"secrets": {"qdrant.apikey": {"name": "q", "key": "k"}}}, "qdrant.apikey"),
    "entry of a secret": ({"secrets": {"qdrant.api_key": {"name": "q"}}}, "key"),
    "variable": ({"otel": {"RANKSTREAM_THREADS": "1"}}, "RANKSTREAM_THREADS"),
    "digest": ({"image": {"digest": "sha256:12"}}, "digest"),
    "destination": ({"networkPolicy": {"egress": {"kafak": {}}}}, "kafak"),
    "root": ({"runAsUser": 0}, "runAsUser"),
    "no pod at a time": ({"podDisruptionBudget": {"maxUnavailable": 0}}, "maxUnavailable"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_contradict_each_other_are_refused(case: str) -> None:
    """Helm renders nothing, and names the value and what to do."""
    name, values, message = REFUSED[case]
    done = template(name, values)
    assert done.returncode != 0
    assert message in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


@pytest.mark.parametrize("case", MISSPELT)
def test_values_that_the_chart_does_not_have_are_refused(case: str) -> None:
    """The schema refuses a misspelt value, and one out of its bounds, and names it."""
    values, named = MISSPELT[case]
    done = template("minimal", values)
    assert done.returncode != 0
    assert named in done.stderr
