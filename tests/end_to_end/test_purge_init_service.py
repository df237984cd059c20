"""`tenure purge`, `tenure init` and `tenure service`."""

import configparser
import tomllib

import msgspec
import pytest

from tenure.cli.commands.init import SETTINGS_TEMPLATE
from tenure.settings import Settings


@pytest.fixture
def shop(tenure):
    """Two jobs done in two queues, one dead."""
    tenure.enqueue("add", "--payload", '{"a": 1}')
    tenure.enqueue("add", "--payload", '{"a": 1}', "--queue", "mail")
    tenure.enqueue("fail")
    tenure("work", "default", "mail", "--burst")
    return tenure


def counted(shop, state):
    return sum(states[state] for states in shop.json("health", "--all")["queues"].values())


def test_purging_asks_first(shop):
    refused = shop("purge", "--state", "done", answer="n\n")
    assert refused.returncode == 1
    assert "Delete 2 jobs for good?" in refused.stdout
    assert counted(shop, "done") == 2
    assert shop("purge", "--state", "done", answer="y\n").stdout.endswith("deleted 2 jobs\n")
    assert (counted(shop, "done"), counted(shop, "dead")) == (0, 1)


def test_purging_is_narrowed_by_queue_and_age(shop):
    assert shop.json("purge", "--state", "done", "--before", "1h", "--force") == {"deleted": 0}
    assert shop.json("purge", "--state", "done", "--queue", "mail", "--force") == {"deleted": 1}
    assert shop.json("purge", "--state", "done", "--state", "dead", "--force") == {"deleted": 2}


def test_a_dry_run_counts_what_would_be_deleted_and_deletes_nothing(shop):
    assert shop("purge", "--state", "done", "--dry-run").stdout == "would delete 2 jobs\n"
    assert (
        shop.json("purge", "--state", "done", "--state", "dead", "--before", "0.001", "--dry-run")["would_delete"] == 3
    )
    assert shop.json("purge", "--state", "done", "--state", "dead", "--before", "1h", "--dry-run") == {
        "would_delete": 0,
        "would_delete_at_most": 0,
    }
    assert (
        shop.json("purge", "--state", "done", "--queue", "mail", "--before", "0.001", "--dry-run")["would_delete"] == 1
    )
    assert (counted(shop, "done"), counted(shop, "dead")) == (2, 1)


@pytest.mark.parametrize(("before", "count"), [("2026-01-01", 0), ("2126-01-01T12:00+01:00", 3)])
def test_purging_before_a_date(shop, before, count):
    asked = ("purge", "--state", "done", "--state", "dead", "--before", before)
    assert shop.json(*asked, "--dry-run")["would_delete"] == count
    assert shop.json(*asked, "--force") == {"deleted": count}


@pytest.mark.parametrize("before", ["soon", "2026-13-01"])
def test_purging_before_what_is_no_time_is_refused(shop, before):
    refused = shop("purge", "--state", "done", "--before", before, "--force")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"--before {before!r} is not a " in refused.stderr
    assert counted(shop, "done") == 2


def test_a_purge_without_a_state_is_refused(tenure):
    done = tenure("purge", "--force")
    assert done.returncode == 2
    assert "--state" in done.stderr


def test_init_writes_an_app_that_works(tenure):
    made = tenure("init", "fresh")
    assert made.stdout.startswith("wrote fresh/tenure.toml\nwrote fresh/jobs.py\n")
    assert tomllib.loads((tenure.folder / "fresh" / "tenure.toml").read_text()) == {"app": "jobs:app"}
    tenure.without("TENURE_APP", "TENURE_URL")
    tenure.folder = tenure.folder / "fresh"
    id = tenure.enqueue("greet", "--payload", '{"name": "Ada"}')
    tenure("work", "--burst")
    assert tenure.json("jobs", "show", id)["output"] == "hello Ada"


def test_init_overwrites_nothing(tenure):
    tenure("init")
    again = tenure("init")
    assert again.returncode == 2
    assert "nothing is overwritten" in again.stderr


def test_what_init_shows_as_defaults_are_the_defaults():
    lines = [line.removeprefix("# ") for line in SETTINGS_TEMPLATE.splitlines() if line.startswith("# ")]
    shown = tomllib.loads("\n".join(line for line in lines if " = " in line or line.startswith("[")))
    defaults = msgspec.json.decode(msgspec.json.encode(Settings()))
    del shown["default_timeout"]  # an example, as the text above it says: there is no limit by default
    retention = shown.pop("retention")
    assert retention == {name: defaults["retention"][name] for name in retention}
    assert shown == {name: defaults[name] for name in ("url", "queues", "max_retries", "stop_grace")}


@pytest.mark.parametrize("program", ["systemd", "supervisor"])
def test_a_service_works_on_the_queues_that_were_named(tenure, program):
    printed = tenure("service", program, "emails", "reports:3", "--processes", "2").stdout
    assert "work --processes 2 --quiet emails reports:3\n" in printed
    assert tenure("service", program, "a;b").returncode == 2


def test_the_unit_for_systemd_stops_after_the_grace(tenure):
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(tenure("service", "systemd", "--user", "shop", "--processes", "3", TENURE_STOP_GRACE="120").stdout)
    service = unit["Service"]
    assert (service["Type"], service["KillMode"], service["User"]) == ("notify", "mixed", "shop")
    assert float(service["TimeoutStopSec"]) > 120
    assert service["ExecStart"].endswith("tenure --app shop:app work --processes 3 --quiet")
    assert service["WorkingDirectory"] == str(tenure.folder)


def test_the_recipe_for_supervisor_stops_after_the_grace(tenure):
    recipe = configparser.ConfigParser(interpolation=None)
    recipe.read_string(tenure("service", "supervisor", "--name", "mail", TENURE_STOP_GRACE="120").stdout)
    program = recipe["program:mail"]
    assert (program["stopsignal"], program["killasgroup"], program["stopasgroup"]) == ("TERM", "true", "false")
    assert int(program["stopwaitsecs"]) > 120


@pytest.fixture
def in_folder(tenure):
    """Runs a command in a folder with this name."""

    def run(name, *arguments):
        tenure.folder = tenure.folder / name
        tenure.folder.mkdir()
        return tenure(*arguments)

    return run


def test_a_folder_with_a_space_and_a_percent_sign_stays_one_word(in_folder):
    unit = in_folder("my 100%n jobs", "service", "systemd").stdout
    assert "/my 100%%n jobs\n" in unit.partition("WorkingDirectory=")[2]
    assert '/my 100%%n jobs"\n' in unit.partition('ReadWritePaths="')[2]


@pytest.mark.parametrize("kind", ["systemd", "supervisor"])
@pytest.mark.parametrize("name", ["shop\nExecStartPre=reboot", "a;b", 'a"b', "a\\b", "a$b"])
def test_a_folder_that_could_add_a_directive_is_refused(in_folder, kind, name):
    refused = in_folder(name, "service", kind)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cannot be written into this file" in refused.stderr
    assert "ExecStartPre=reboot" not in refused.stderr.splitlines()


@pytest.mark.parametrize("option", ["--name", "--user"])
def test_a_name_that_could_add_a_directive_is_refused(tenure, option):
    refused = tenure("service", "systemd", option, "shop\nExecStartPre=reboot")
    assert (refused.returncode, refused.stdout) == (2, "")
