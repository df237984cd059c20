"""The manifests fit the API of Kubernetes, their commands and variables exist, and their parts refer to each other."""

import re

import kubernetes_validate
import pytest
import yaml

from tenure.cli.arguments import parse_seconds
from tests.support.deploy_files import (
    DEPLOY,
    ROOT,
    SECRETS,
    check_environment,
    commands_in,
    documents,
    parse_command,
    pod_of,
)
from tests.support.docs_pages import blocks

FOLDER = DEPLOY / "kubernetes"
PAGE = ROOT / "docs" / "how-to" / "run-on-kubernetes.md"
CORE = documents("kubernetes/*.yaml")
KUSTOMIZATION = next(CORE.pop(name) for name in [*CORE] if name.endswith(":Kustomization"))
KEDA = documents("kubernetes/keda/*.yaml")
MONITORING = documents("kubernetes/monitoring/*.yaml")
ALL = {**CORE, **KEDA, **MONITORING}
PODS = {name: pod for name, each in ALL.items() if (pod := pod_of(each))}
SETTINGS = CORE["kubernetes/settings.yaml:0:ConfigMap"]["data"]
SECRET = CORE["kubernetes/secret.example.yaml:0:Secret"]
WORKER = CORE["kubernetes/worker.yaml:0:Deployment"]
MARGIN = 10.0  # what a worker may take after its stop grace to settle and to close


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_a_manifest_fits_the_api(name, version):
    kubernetes_validate.validate(CORE[name], version, strict=True)


def test_the_kustomization_lists_every_manifest_but_the_example_of_a_secret():
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml", "secret.example.yaml"}
    assert set(KUSTOMIZATION["resources"]) == files
    assert {image["name"] for image in KUSTOMIZATION["images"]} == {
        pod["containers"][0]["image"] for name, pod in PODS.items() if name in CORE
    }


def test_the_overlay_of_the_page_changes_the_image_of_every_pod_and_a_setting_that_exists():
    (overlay,) = [yaml.safe_load(each.text) for each in blocks(PAGE) if "kind: Kustomization" in each.text]
    (ours,), (theirs,) = KUSTOMIZATION["images"], overlay["images"]
    assert theirs["name"] == ours["newName"]  # kustomize renames the images of the base first
    for patch in overlay["patches"]:
        (change,) = yaml.safe_load(patch["patch"])
        assert (patch["target"]["kind"], patch["target"]["name"]) == ("ConfigMap", "tenure")
        assert change["path"].removeprefix("/data/") in SETTINGS


def containers(pod):
    return [*pod.get("initContainers", ()), *pod["containers"]]


@pytest.mark.parametrize("name", PODS)
def test_a_pod_passes_the_restricted_standard(name):
    pod = PODS[name]
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] >= 10000
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in containers(pod):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}


@pytest.mark.parametrize("name", PODS)
def test_the_commands_of_a_pod_exist(name):
    for container in containers(PODS[name]):
        parse_command(container["args"])
        for command in commands_in([container.get(each) for each in ("startupProbe", "livenessProbe", "lifecycle")]):
            parse_command(command)


@pytest.mark.parametrize("name", PODS)
def test_the_variables_of_a_pod_are_settings_and_name_keys_of_the_secret(name):
    pod = PODS[name]
    for container in containers(pod):
        own = {each["name"]: each["value"] for each in container.get("env", ())}
        assert container["envFrom"] == [{"configMapRef": {"name": "tenure"}}]
        variables = {**SETTINGS, **own}
        check_environment(variables)
        mounted = {item["path"] for volume in pod["volumes"] for item in volume.get("secret", {}).get("items", ())}
        for path in (value for value in variables.values() if value.startswith("/run/secrets/tenure/")):
            assert path.rpartition("/")[2] in mounted
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
        assert mounted <= SECRET["stringData"].keys()
        assert variables["TENURE_PROBE_PATH"].startswith("/tmp/")


def test_the_example_of_a_secret_is_refused_by_tenure():
    values = {**dict(zip(SECRETS, SECRET["stringData"].values(), strict=True))}
    assert values["TENURE_KEYS"] == "KID:SECRET"
    assert "scrypt$" not in values["TENURE_DASHBOARD__USERS"]


@pytest.mark.parametrize("kind", ["worker", "scheduler"])
def test_liveness_asks_for_progress_and_readiness_for_a_ready_process(kind):
    (container,) = CORE[f"kubernetes/{kind}.yaml:0:Deployment"]["spec"]["template"]["spec"]["containers"]
    asked = {
        name: parse_command(next(commands_in(container[name]))).params["probe"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert asked == {"startupProbe": "live", "livenessProbe": "live", "readinessProbe": "ready"}


def test_a_worker_is_not_killed_before_its_hook_and_its_stop_grace_are_over():
    pod = WORKER["spec"]["template"]["spec"]
    hook = parse_command(next(commands_in(pod["containers"][0]["lifecycle"]))).params
    needed = parse_seconds(hook["wait"], "--wait") + float(SETTINGS["TENURE_STOP_GRACE"]) + MARGIN
    assert hook["this_host"]
    assert pod["terminationGracePeriodSeconds"] >= needed


def test_a_worker_that_hangs_does_not_wait_for_its_hook():
    (container,) = WORKER["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["terminationGracePeriodSeconds"] <= 60


@pytest.mark.parametrize("name", [name for name, pod in PODS.items() if "terminationGracePeriodSeconds" in pod])
def test_a_pod_has_longer_than_its_stop_grace(name):
    if "dashboard" not in name:  # it has no jobs
        assert PODS[name]["terminationGracePeriodSeconds"] >= float(SETTINGS["TENURE_STOP_GRACE"]) + MARGIN


def test_selectors_and_ports_match_the_pods():
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in CORE.values() if pod_of(each)]
    ports = {port["name"] for pod in PODS.values() for each in pod["containers"] for port in each.get("ports", ())}
    for each in ALL.values():
        spec = each.get("spec", {})
        selectors = [spec.get("selector"), spec.get("podSelector")]
        wanted = [found.get("matchLabels", found) for found in selectors if found]
        for chosen in wanted:
            assert any(chosen.items() <= label.items() for label in labels), each["metadata"]["name"]
        for rule in spec.get("ingress", ()):
            assert {port["port"] for port in rule["ports"]} <= ports
        for endpoint in spec.get("podMetricsEndpoints", ()):
            assert endpoint["port"] in ports
    probes = [
        container.get("livenessProbe", {}).get("httpGet") for pod in PODS.values() for container in pod["containers"]
    ]
    assert {probe["port"] for probe in probes if probe} <= ports


# The shapes of the custom resources: what each may and must contain, by the documentation of KEDA 2.21.
TRIGGERS = {
    "prometheus": ({"serverAddress", "query", "threshold"}, {"activationThreshold", "namespace", "ignoreNullValues"}),
    "metrics-api": ({"url", "valueLocation", "targetValue"}, {"activationTargetValue", "authMode", "format"}),
}
SPECS = {
    "ScaledObject": {
        "scaleTargetRef", "pollingInterval", "cooldownPeriod", "minReplicaCount", "maxReplicaCount", "fallback",
        "advanced", "triggers",
    },
    "ScaledJob": {
        "jobTargetRef", "pollingInterval", "maxReplicaCount", "successfulJobsHistoryLimit", "failedJobsHistoryLimit",
        "scalingStrategy", "triggers",
    },
    "TriggerAuthentication": {"secretTargetRef"},
}  # fmt: skip


@pytest.mark.parametrize("name", KEDA)
def test_a_resource_of_keda_has_the_shape_that_keda_documents(name):
    found = KEDA[name]
    assert found["apiVersion"] == "keda.sh/v1alpha1"
    assert found["spec"].keys() <= SPECS[found["kind"]]
    for trigger in found["spec"].get("triggers", ()):
        required, optional = TRIGGERS[trigger["type"]]
        metadata = trigger["metadata"]
        assert required <= metadata.keys() <= required | optional
        assert all(isinstance(value, str) for value in metadata.values())
        if metadata.get("authMode"):
            names = [each["metadata"]["name"] for each in KEDA.values() if each["kind"] == "TriggerAuthentication"]
            assert trigger["authenticationRef"]["name"] in names


@pytest.mark.parametrize("name", [name for name, each in KEDA.items() if each["kind"] == "ScaledObject"])
def test_a_scaled_object_scales_the_workers_by_what_is_ready_or_runs(name):
    spec = KEDA[name]["spec"]
    text = yaml.safe_dump(spec)
    (worker,) = PODS["kubernetes/worker.yaml:0:Deployment"]["containers"]
    concurrency = str(parse_command(worker["args"]).params["concurrency"])
    assert spec["scaleTargetRef"]["name"] == WORKER["metadata"]["name"]
    assert "ready" in text
    assert "leased" in text
    for trigger in spec["triggers"]:
        assert trigger["metadata"].get("threshold", trigger["metadata"].get("targetValue")) == concurrency


@pytest.mark.parametrize("name", [name for name, each in KEDA.items() if each["kind"] == "ScaledJob"])
def test_a_scaled_job_runs_a_worker_that_ends_by_itself(name):
    (container,) = PODS[name]["containers"]
    assert parse_command(container["args"]).params["burst"]
    assert KEDA[name]["spec"]["scalingStrategy"]["strategy"] == "accurate"


def test_the_formula_of_a_scaled_object_names_its_triggers():
    spec = KEDA["kubernetes/keda/scaled-object-metrics-api.yaml:0:ScaledObject"]["spec"]
    formula = spec["advanced"]["scalingModifiers"]["formula"]
    assert set(re.findall(r"[a-z]+", formula)) == {trigger["name"] for trigger in spec["triggers"]}


def test_the_answer_of_the_api_has_the_values_that_keda_reads():
    from tenure.app.dashboard.queues import QueuesPage, QueueTotals

    for each in KEDA.values():
        for trigger in each["spec"].get("triggers", ()):
            if trigger["type"] == "metrics-api":
                table, member = trigger["metadata"]["valueLocation"].split(".")
                assert table in QueuesPage.__struct_fields__
                assert member in QueueTotals.__struct_fields__
                assert trigger["metadata"]["url"].endswith("/api/queues")


def test_the_query_of_keda_reads_a_metric_and_states_that_exist():
    from tenure.events import LIVE_STATES
    from tenure.metrics.prometheus import HELP

    (query,) = [
        trigger["metadata"]["query"]
        for each in KEDA.values()
        for trigger in each["spec"].get("triggers", ())
        if trigger["type"] == "prometheus"
    ]
    (metric,) = re.findall(r"\b(tenure_\w+)\{", query)
    assert metric in HELP
    (states,) = re.findall(r'state=~"([^"]+)"', query)
    assert set(states.split("|")) <= set(LIVE_STATES)
