"""The compose file is well-formed, its commands and variables exist, and its times fit together."""

import re

import pytest
import yaml

from tests.support.deploy_files import DEPLOY, ROOT, check_environment, commands_in, parse_command

FILE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES = FILE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "tenure"}
SERVICE_KEYS = {
    "build", "cap_drop", "command", "depends_on", "deploy", "environment", "healthcheck", "image", "ports",
    "read_only", "restart", "secrets", "security_opt", "stop_grace_period", "tmpfs", "volumes",
}  # fmt: skip
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
MARGIN = 10.0  # what a worker may take after its stop grace to settle and to close


def seconds(text):
    assert re.fullmatch(r"\d+s", text)
    return float(text[:-1])


def test_it_has_only_what_compose_knows():
    assert {key for key in FILE if not key.startswith("x-")} == {"name", "services", "volumes", "secrets"}
    for service in SERVICES.values():
        assert service.keys() <= SERVICE_KEYS


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_refers_to_exists(name):
    service = SERVICES[name]
    assert set(service["secrets"]) <= FILE["secrets"].keys()
    for other, condition in service.get("depends_on", {}).items():
        assert condition["condition"] in CONDITIONS
        if condition["condition"] == "service_healthy":
            assert SERVICES[other]["healthcheck"]["test"]
    for path in (value for value in service["environment"].values() if value.startswith("/run/secrets/")):
        assert path.removeprefix("/run/secrets/") in service["secrets"]


@pytest.mark.parametrize("name", OURS)
def test_a_command_exists_and_runs_confined(name):
    service = OURS[name]
    parse_command(service["command"])
    for command in commands_in(service.get("healthcheck")):
        parse_command(command)
    assert service["read_only"]
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("name", OURS)
def test_the_variables_of_a_service_are_settings_and_it_is_not_killed_before_its_stop_grace(name):
    settings = check_environment(OURS[name]["environment"])
    assert seconds(OURS[name]["stop_grace_period"]) >= float(settings["stop_grace"]) + MARGIN


def test_only_the_dashboard_is_published_and_only_on_this_host():
    assert {name: service["ports"] for name, service in SERVICES.items() if "ports" in service} == {
        "dashboard": ["127.0.0.1:8642:8642"]
    }
    assert check_environment(SERVICES["dashboard"]["environment"])["dashboard"]["users"]


def test_no_secret_is_in_the_repository():
    assert {secret["file"] for secret in FILE["secrets"].values()} == {f"secrets/{name}" for name in FILE["secrets"]}
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text("utf-8").split("\n")


def test_the_example_app_of_the_workers_exists():
    volume = re.fullmatch(r"\$\{APP_FOLDER:-(.*)\}:/app:ro", OURS["worker"]["volumes"][0])
    location = re.fullmatch(r"\$\{TENURE_APP:-(.*)\}", OURS["worker"]["environment"]["TENURE_APP"])
    folder = (DEPLOY / volume[1]).resolve()
    assert (folder / f"{location[1].partition(':')[0]}.py").is_file()


def test_the_image_is_built_from_the_root_of_the_repository():
    build = SERVICES["worker"]["build"]
    assert (DEPLOY / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
