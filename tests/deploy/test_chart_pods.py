"""The pods of the chart: how they are restricted, what they run, when they are ready and how they end."""

import json
from pathlib import Path

import yaml

from schemas.settings import Settings
from tests.deploy.chart import Rendered, render, rendered
from tests.deploy.files import FLOWS, MARGIN_S, check_command, last_stage


def test_pods_are_restricted(chart: Rendered) -> None:
    """Pods satisfy the `restricted` Pod Security Standard, on a read-only file system."""
    for workload in chart.workloads:
        context = workload.pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context.get("runAsUser", 1) > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        own = workload.container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False
        assert own["readOnlyRootFilesystem"] is True
        assert own["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in own
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & workload.pod.keys()


def test_pods_run_as_the_images_user() -> None:
    """The user and the group are those that the image was made for, unless the cluster chooses them."""
    for workload in rendered("minimal").workloads:
        context = workload.pod["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == last_stage().last("USER")
    for workload in rendered("managed-kafka").workloads:
        assert not {"runAsUser", "runAsGroup"} & workload.pod["securityContext"].keys()


def test_pods_have_no_way_to_the_kubernetes_api(chart: Rendered) -> None:
    """They have an account of their own without a token, and no variables that describe other Services."""
    account = chart.one("ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    for workload in chart.workloads:
        assert workload.pod["serviceAccountName"] == account["metadata"]["name"]
        assert workload.pod["automountServiceAccountToken"] is False
        assert workload.pod["enableServiceLinks"] is False


def test_an_account_that_exists_can_be_used() -> None:
    """Without an account of its own the chart makes none, and the pods use the one that is named, or the default."""
    for name, used in (("", "default"), ("search", "search")):
        found = render("minimal", {"serviceAccount": {"create": False, "name": name}})
        assert not found.of("ServiceAccount")
        assert {workload.pod["serviceAccountName"] for workload in found.workloads} == {used}


def test_pods_keep_nothing(chart: Rendered) -> None:
    """No pod has storage; what is mounted by the chart is read-only, and is a ConfigMap or a Secret."""
    for workload in chart.workloads:
        assert "volumeClaimTemplates" not in workload.object["spec"]
        mounts = {mount["name"]: mount for mount in workload.container["volumeMounts"]}
        for volume in workload.pod["volumes"]:
            assert volume.keys() - {"name"} <= {"configMap", "secret", "emptyDir"}
            assert "emptyDir" in volume or mounts[volume["name"]]["readOnly"] is True


def test_pods_find_the_configuration(chart: Rendered) -> None:
    """The ConfigMap is mounted where the command looks for its file."""
    for workload in chart.workloads:
        [volume] = [volume for volume in workload.pod["volumes"] if volume["name"] == "configuration"]
        assert volume["configMap"]["name"] == chart.configuration_map["metadata"]["name"]
        [mount] = [mount for mount in workload.container["volumeMounts"] if mount["name"] == volume["name"]]
        arguments = workload.container["args"]
        path = Path(arguments[arguments.index("--config") + 1])
        assert path.parent == Path(mount["mountPath"])
        assert path.name in chart.configuration_map["data"]


def test_pods_run_commands_that_there_are(chart: Rendered) -> None:
    """Each container's arguments are a command of the command line with its options, for the image's entry point."""
    commands = {}
    for workload in chart.workloads:
        assert "command" not in workload.container
        check_command(workload.container["args"])
        commands[workload.component] = workload.container["args"][0]
    for component, command in {"topics": "topics", "console": "console", "feedback": "learn"}.items():
        assert commands.pop(component, command) == command
    assert commands == {"search": "run", "indexing": "index", "check": "check"}


def test_pods_ask_for_what_they_need(chart: Rendered) -> None:
    """CPU and memory are requested; memory is bounded, and the CPU isn't, so that no heartbeat is throttled."""
    for workload in chart.workloads:
        resources = workload.container["resources"]
        assert resources["requests"].keys() == {"cpu", "memory"}
        assert resources["limits"].keys() == {"memory"}


def test_the_grace_period_outlasts_the_drain(chart: Rendered, configured: Settings) -> None:
    """No replica is killed that still finishes queries or closes its connections; the chart computes how long."""
    for workload in chart.flows:
        grace = workload.pod["terminationGracePeriodSeconds"]
        assert configured.delivery.drain_timeout + MARGIN_S <= grace < configured.delivery.drain_timeout + MARGIN_S + 1


def test_probes_ask_the_health_port(chart: Rendered, configured: Settings) -> None:
    """Start and life are `/livez`, readiness is `/readyz`, on the port that the configuration opens."""
    for workload in chart.flows:
        ports = {port["name"]: port["containerPort"] for port in workload.container["ports"]}
        asked = {}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = workload.container[kind]["httpGet"]
            assert ports[probe["port"]] == configured.telemetry.port == configured.telemetry.indexing_port
            asked[kind] = probe["path"]
        assert asked == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


def test_a_slow_start_is_no_failure(chart: Rendered, configured: Settings) -> None:
    """The startup probe waits as long as a start may take, and longer than two requests to the broker."""
    for workload in chart.flows:
        probe = workload.container["startupProbe"]
        allowed = probe["periodSeconds"] * probe["failureThreshold"]
        assert allowed >= 2 * configured.kafka.request_timeout
        assert allowed >= 100
    slow = render("minimal", {"startupSeconds": 601}).flow("search").container["startupProbe"]
    assert slow["periodSeconds"] * slow["failureThreshold"] == 602


def test_readiness_waits_for_qdrants_answer(chart: Rendered) -> None:
    """The probe's time-out is longer than the 2 s for which `/readyz` waits for Qdrant."""
    assert all(workload.container["readinessProbe"]["timeoutSeconds"] > 2 for workload in chart.flows)


def test_replicas_have_stable_names(chart: Rendered) -> None:
    """A replica is named after its pod, whose successor has the same name, and its traces say so."""
    for workload in chart.flows:
        variables = workload.variables
        replica = variables["RANKSTREAM_DELIVERY__REPLICA"]
        assert replica["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        assert variables["OTEL_SERVICE_NAME"]["value"] == f"rankstream-{workload.component}"
        resource = variables["OTEL_RESOURCE_ATTRIBUTES"]["value"]
        assert resource == "k8s.namespace.name=search,k8s.pod.name=$(RANKSTREAM_DELIVERY__REPLICA)"
        # Kubernetes replaces a variable only by one that stands before it.
        assert list(variables).index("RANKSTREAM_DELIVERY__REPLICA") < list(variables).index("OTEL_RESOURCE_ATTRIBUTES")


def test_replicas_start_together(chart: Rendered) -> None:
    """No replica waits for another."""
    assert {workload.object["spec"]["podManagementPolicy"] for workload in chart.flows} == {"Parallel"}


def test_replicas_are_spread(chart: Rendered) -> None:
    """The replicas of a flow are spread over zones and hosts, and counted by their own labels."""
    for workload in chart.flows:
        constraints = workload.pod["topologySpreadConstraints"]
        keys = {constraint["topologyKey"] for constraint in constraints}
        assert keys == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}
        selector = workload.object["spec"]["selector"]
        assert all(constraint["labelSelector"] == selector for constraint in constraints)


def test_nodes_are_drained_one_replica_at_a_time(chart: Rendered) -> None:
    """Each flow has a PodDisruptionBudget that selects its own pods, and lets pods go that aren't ready."""
    selectors = [workload.object["spec"]["selector"] for workload in chart.flows]
    budgets = chart.of("PodDisruptionBudget")
    assert sorted(map(str, selectors)) == sorted(str(budget["spec"]["selector"]) for budget in budgets)
    assert {budget["spec"]["unhealthyPodEvictionPolicy"] for budget in budgets} == {"AlwaysAllow"}
    assert not render("minimal", {"podDisruptionBudget": {"enabled": False}}).of("PodDisruptionBudget")


def test_each_flow_has_a_headless_service(chart: Rendered) -> None:
    """The Service that names the replicas has no address of its own, selects them alone, and knows their port."""
    services = {
        service["metadata"]["name"]: service["spec"]
        for service in chart.of("Service")
        if "clusterIP" in service["spec"]
    }
    assert len(services) == len(chart.flows)
    for workload in chart.flows:
        service = services[workload.object["spec"]["serviceName"]]
        assert service["clusterIP"] == "None"
        assert service["selector"] == workload.object["spec"]["selector"]["matchLabels"]
        [port] = service["ports"]
        assert (port["name"], port["targetPort"]) == ("health", "health")
        assert port["port"] == workload.container["ports"][0]["containerPort"]


def test_the_flows_share_no_label_selector(chart: Rendered) -> None:
    """No flow's StatefulSet or Service selects the pods of another."""
    selectors = {json.dumps(workload.object["spec"]["selector"], sort_keys=True) for workload in chart.flows}
    assert len(selectors) == len(chart.flows) >= len(FLOWS)


def test_a_flow_can_run_elsewhere() -> None:
    """A flow that is turned off leaves nothing behind but what the other one needs."""
    found = render("minimal", {"search": {"enabled": False}})
    assert [workload.component for workload in found.flows] == ["indexing"]
    kinds = ("Service", "PodDisruptionBudget", "Secret")
    assert {kind: len(found.of(kind)) for kind in kinds} == {"Service": 1, "PodDisruptionBudget": 1, "Secret": 0}


def test_the_feedback_flow_runs_where_it_is_turned_on() -> None:
    """By default it does not; it may run alone, with the secret of a search flow that is elsewhere."""
    assert not [workload for workload in rendered("minimal").flows if workload.component == "feedback"]
    assert rendered("everything").flow("feedback").object["spec"]["replicas"] == 2
    others = {"search": {"enabled": False}, "indexing": {"enabled": False}}
    topics = {"kafka": {"topics": {"feedback": "f", "preferences": "p"}}}
    secret = {"cursor.signing_secret": {"name": "cursors", "key": "secret"}}
    found = render("minimal", {**others, "feedback": {"enabled": True}, "config": topics, "secrets": secret})
    [alone] = found.flows
    assert (alone.component, alone.secrets) == (
        "feedback",
        {"RANKSTREAM_CURSOR__SIGNING_SECRET": ("cursors", "secret")},
    )


def test_pods_have_what_the_values_add() -> None:
    """Placement, annotations, volumes and variables of the values reach the pods that they are for."""
    found = rendered("everything")
    search = found.flow("search")
    template = search.object["spec"]["template"]["metadata"]
    assert template["annotations"]["example.com/team"] == "search"
    assert template["labels"]["example.com/tier"] == "backend"
    assert search.pod["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert search.pod["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert search.pod["affinity"] == {"nodeAffinity": {}}
    assert search.object["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 100}
    for workload in found.workloads:
        assert workload.pod["priorityClassName"] == "important"
        assert workload.pod["imagePullSecrets"] == [{"name": "registry"}]
        assert workload.container["imagePullPolicy"] == "Always"
        assert workload.container["envFrom"] == [{"configMapRef": {"name": "proxies"}}]
        assert {"name": "models", "emptyDir": {"sizeLimit": "1Gi"}} in workload.pod["volumes"]
        assert {"name": "models", "mountPath": "/models"} in workload.container["volumeMounts"]
        assert workload.variables["OTEL_EXPORTER_OTLP_ENDPOINT"]["value"] == "http://collector.observability:4318"
        assert workload.variables["OTEL_TRACES_SAMPLER_ARG"]["value"] == "0.1"
        assert workload.secrets["OTEL_EXPORTER_OTLP_HEADERS"] == ("collector", "headers")


# The Job for the topics


def test_every_change_of_the_pod_is_another_job() -> None:
    """A Job is immutable: image, configuration and secrets are part of its name, and nothing else is."""

    def name(values: dict[str, object]) -> str:
        return str(render("minimal", values).one("Job")["metadata"]["name"])

    first = name({})
    changes: list[dict[str, object]] = [
        {"image": {"tag": "0.9.9"}},
        {"config": {"kafka": {"partitions": 9}}},
        {"secrets": {"qdrant.api_key": {"name": "q", "key": "k"}}},
        {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]},
    ]
    assert len({first, *map(name, changes)}) == 1 + len(changes)
    assert name({"search": {"replicas": 3}}) == first
    assert len(name({"fullnameOverride": "x" * 63})) <= 63


def test_a_job_of_one_name_is_one_job() -> None:
    """The Job's pod depends on its name alone: the same name is the same template, in any release."""
    specs: dict[str, set[str]] = {}
    for values in ({}, {"search": {"replicas": 3}}, {"generateCursorSecret": False}):
        job = render("minimal", values).one("Job")
        specs.setdefault(job["metadata"]["name"], set()).add(yaml.safe_dump(job["spec"]["template"]))
    assert [len(templates) for templates in specs.values()] == [1]


def test_users_may_add_to_what_traces_say() -> None:
    """Attributes of the values stand in front of the chart's, and no variable is there twice."""
    given = "deployment.environment=prod #1,note=a: b"
    otel = {"OTEL_RESOURCE_ATTRIBUTES": given, "OTEL_SERVICE_NAME": "shop"}
    for workload in render("minimal", {"otel": otel}).workloads:
        names = [each["name"] for each in workload.container["env"]]
        assert len(set(names)) == len(names)
        assert workload.variables["OTEL_SERVICE_NAME"]["value"] == "shop"
        found = workload.variables["OTEL_RESOURCE_ATTRIBUTES"]["value"]
        assert found.startswith(given)
        assert ("k8s.pod.name=" in found) == (workload.component in FLOWS)
