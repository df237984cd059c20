"""Every setting has a test that shows what it does, in this file or in the file that is named here.

The first test fails for a new setting until its test is named.
"""

import ast
import logging
import socket
import threading
import time
from datetime import timedelta
from pathlib import Path
from secrets import token_bytes
from types import SimpleNamespace

import pytest

from tenure import Tenure
from tenure.backends.messages import Lease, Message
from tenure.backends.records import AuditRecord
from tenure.builtin import url as url_handler
from tenure.builtin.url import Request, Sender
from tenure.clock import to_datetime
from tenure.definition.context import Context
from tenure.errors import Refused, RequestFailed, TenureError
from tenure.permissions import Http
from tenure.testing import FakeClock, run_due
from tenure.wire.signing import Key
from tests.support import settings_page
from tests.support.http_server import Server, response

# The runner needs the alarm that the other method uses.
pytestmark = pytest.mark.timeout(120, method="thread")
TESTS = Path(__file__).parents[1]
DAY = 86_400

ELSEWHERE = {
    "backends": "unit/app/test_app.py::test_a_job_may_go_to_another_backend_by_name",
    "outboxes": "integration/outbox/test_outbox_relay.py::test_jobs_reach_their_backend_in_order_and_run",
    "url_override": (
        "end_to_end/test_doctor.py::test_the_url_override_replaces_the_url_in_the_code_for_every_process_and_is_shown"
    ),
    "strict_queues": (
        "integration/app/test_queue_names.py::test_strict_queues_refuse_a_typo_on_enqueue_and_by_workers"
    ),
    "store": "integration/worker/test_guards.py::test_guards_may_live_elsewhere",
    "app": "end_to_end/test_startup.py::test_the_app_is_taken_from_the_settings_file",
    "modules": "end_to_end/test_startup.py::test_the_modules_of_the_settings_are_imported",
    "timezone": "unit/cron/test_registry.py::test_a_schedule_follows_the_clock_of_the_app_unless_it_names_its_own",
    "schedules": "unit/cron/test_registry.py::test_the_settings_name_a_function_that_registers_schedules",
    "lanes": "end_to_end/test_work_lanes.py::test_without_arguments_all_lanes_of_the_settings_are_served",
    "aliases": "unit/app/test_app.py::test_a_job_for_an_alias_goes_to_the_queue_it_stands_for",
    "allow": "integration/worker/test_message_checks.py::test_a_handler_outside_the_allowlist_of_its_queue_is_refused",
    "keys": (
        "integration/worker/test_message_checks.py::test_a_message_of_an_unknown_key_waits_and_is_dead_after_a_while"
    ),
    "scopes": (
        "integration/worker/test_message_checks.py::test_a_key_signs_only_for_the_queues_and_handlers_of_its_scope"
    ),
    "audience": "integration/worker/test_message_checks.py::test_a_message_for_another_audience_is_refused",
    "backoff": "unit/app/test_app.py::test_settings_give_the_backoff",
    "rates": (
        "integration/worker/test_guards.py::"
        "test_a_limited_queue_starts_no_more_than_its_rate_and_spends_nothing_on_empty_polls"
    ),
    "on_dead": "integration/worker/test_on_dead.py::test_a_death_is_told_with_its_cause",
    "suspect_after": (
        "integration/processes/test_suspects.py::"
        "test_a_job_that_always_kills_its_worker_is_dead_as_a_crash_loop_after_a_known_number_of_runs"
    ),
    "stop_grace": "end_to_end/test_supervisor_stop.py::test_the_stop_grace_may_be_a_setting",
    "probe_path": "end_to_end/test_containers.py::test_a_worker_is_alive_and_ready_until_it_stops",
    "metrics": "unit/app/test_metrics_collector.py::test_a_collector_may_be_named_by_the_setting",
    "tracing": (
        "integration/app/test_tracing.py::test_an_attempt_is_in_the_trace_of_its_enqueue_if_the_setting_says_parent"
    ),
    "log_format": "end_to_end/test_work.py::test_the_format_of_logs_may_be_a_setting",
    "execution_log": "unit/worker/test_logs.py::test_an_execution_is_kept_with_what_it_was_given_and_gave",
    "max_output": "unit/worker/test_logs.py::test_long_output_is_cut_in_the_log_and_in_the_history",
    "sensitive": "end_to_end/test_secrets.py::test_nothing_that_is_shown_of_a_job_holds_its_secrets",
    "command": "integration/builtin/test_command.py::test_a_click_command_runs_and_what_it_prints_is_the_result",
    "shell": "integration/builtin/test_shell.py::test_a_program_that_is_not_named_is_refused_where_it_is_enqueued",
    "event": "unit/builtin/test_event.py::test_a_name_that_is_not_allowed_is_refused",
    "http": "integration/builtin/test_url.py::test_a_job_goes_all_the_way",
    "notifications": "integration/notifications/test_notifier.py::test_people_are_mailed_when_a_job_dies",
    "mail": "integration/notifications/test_notifier.py::test_people_are_mailed_when_a_job_dies",
    "shell.allow": (
        "integration/builtin/test_shell.py::test_a_program_that_is_not_named_is_refused_where_it_is_enqueued"
    ),
    "shell.allow_all": "integration/builtin/test_shell.py::test_the_allowlist_can_be_opened_explicitly",
    "shell.arguments": "integration/builtin/test_shell.py::test_declared_arguments_are_checked",
    "shell.environment": "integration/builtin/test_shell.py::test_a_program_sees_nothing_of_the_workers_environment",
    "shell.timeout": "integration/builtin/test_shell.py::test_past_the_settings_timeout_the_whole_group_is_killed",
    "shell.max_output": "integration/builtin/test_shell.py::test_a_flood_of_output_is_read_to_the_end_and_kept_in_part",
    "shell.cpu_seconds": "integration/builtin/test_shell.py::test_processor_time_is_limited",
    "shell.memory": "integration/builtin/test_shell.py::test_memory_is_limited",
    "shell.file_size": "integration/builtin/test_shell.py::test_the_size_of_files_is_limited",
    "event.allow": "unit/builtin/test_event.py::test_a_name_that_is_not_allowed_is_refused",
    "http.allow": "unit/builtin/test_targets.py::test_hosts_are_allowed_by_name_or_by_what_they_end_in",
    "http.networks": "integration/builtin/test_url.py::test_an_address_in_the_url_is_judged_like_any_other",
    "http.headers": "integration/builtin/test_url.py::test_a_header_that_is_not_allowed_is_refused",
    "http.certificates": "integration/builtin/test_url.py::test_https_is_checked_against_the_name_in_the_url",
    "http.timeout": "integration/builtin/test_url.py::test_one_deadline_holds_for_the_whole_exchange",
    "http.max_body": "integration/builtin/test_url.py::test_a_large_body_is_cut",
    "http.failing_status": "integration/builtin/test_url.py::test_which_statuses_fail_can_be_set",
    "http.max_retry_after": "integration/builtin/test_url.py::test_retry_after_is_bounded",
    "mail.host": "integration/notifications/test_mail.py::test_a_mail_arrives_as_it_was_written",
    "mail.port": "integration/notifications/test_mail.py::test_a_mail_arrives_as_it_was_written",
    "mail.security": "integration/notifications/test_mail.py::test_a_server_without_tls_gets_no_mail_unless_told_so",
    "mail.user": "integration/notifications/test_mail.py::test_a_login_goes_over_tls_to_a_server_that_is_trusted",
    "mail.password": "integration/notifications/test_mail.py::test_a_wrong_password_is_told_without_it",
    "mail.sender": "integration/notifications/test_mail.py::test_a_mail_arrives_as_it_was_written",
    "mail.certificates": "integration/notifications/test_mail.py::test_a_server_that_is_not_trusted_gets_no_mail",
    "mail.timeout": "integration/notifications/test_mail.py::test_a_server_that_drips_is_cut_off_at_the_deadline",
    "lanes.NAME.queues": "end_to_end/test_work_lanes.py::test_only_the_named_lanes_are_served",
    "lanes.NAME.weights": (
        "unit/worker/test_lane.py::test_with_weights_a_queue_comes_first_in_proportion_to_its_weight"
    ),
    "lanes.NAME.runner": "end_to_end/test_work_lanes.py::test_the_lanes_of_a_worker_are_shown",
    "lanes.NAME.concurrency": "end_to_end/test_work_lanes.py::test_the_lanes_of_a_worker_are_shown",
    "notifications.NAME.on": "unit/notifications/test_notice.py::test_only_what_was_asked_for_is_told",
    "notifications.NAME.queues": "unit/notifications/test_notice.py::test_only_what_was_asked_for_is_told",
    "notifications.NAME.handlers": "unit/notifications/test_notice.py::test_only_what_was_asked_for_is_told",
    "notifications.NAME.job": (
        "integration/notifications/test_notifier.py::test_a_job_of_ours_is_told_and_never_of_itself"
    ),
    "notifications.NAME.webhook": "integration/notifications/test_notifier.py::test_a_webhook_gets_the_notice_as_json",
    "notifications.NAME.mail": "integration/notifications/test_notifier.py::test_people_are_mailed_when_a_job_dies",
    "notifications.NAME.subject": "end_to_end/test_notifications.py::test_a_worker_mails_a_death_before_it_ends",
    "notifications.NAME.text": "integration/notifications/test_notifier.py::test_a_webhook_gets_the_notice_as_json",
    "notifications.NAME.rate": (
        "integration/notifications/test_notifier.py::test_a_rate_leaves_notices_out_and_the_next_says_how_many"
    ),
    "dashboard": "integration/web/test_sign_in.py::test_without_hook_and_users_the_dashboard_is_closed",
    "dashboard.users": "integration/web/test_sign_in.py::test_a_session_has_the_rights_of_its_user",
    "dashboard.tokens": "integration/web/test_sign_in.py::test_a_token_uses_the_api_with_its_own_rights",
    "dashboard.session": "integration/web/test_sign_in.py::test_the_length_of_a_session_is_a_setting",
    "dashboard.trusted_origins": "integration/web/test_actions.py::test_forms_of_an_origin_of_the_settings_act",
    "dashboard.users.NAME.password": "integration/web/test_sign_in.py::test_a_session_has_the_rights_of_its_user",
    "dashboard.users.NAME.role": "integration/web/test_sign_in.py::test_a_session_has_the_rights_of_its_user",
    "dashboard.users.NAME.queues": "integration/web/test_sign_in.py::test_a_user_sees_the_queues_of_the_settings_only",
    "dashboard.users.NAME.actions": "integration/web/test_sign_in.py::test_a_user_has_the_actions_of_the_settings_only",
    "dashboard.tokens.NAME.sha256": "integration/web/test_sign_in.py::test_a_token_uses_the_api_with_its_own_rights",
    "dashboard.tokens.NAME.role": "integration/web/test_sign_in.py::test_a_token_uses_the_api_with_its_own_rights",
    "dashboard.tokens.NAME.queues": (
        "integration/web/test_sign_in.py::test_a_token_sees_the_queues_of_the_settings_only"
    ),
    "dashboard.tokens.NAME.actions": "integration/web/test_sign_in.py::test_a_token_uses_the_api_with_its_own_rights",
}
HERE: dict[str, str] = {}


def proves(*settings):
    """Marks a test as the proof of settings."""

    def note(test):
        HERE.update(dict.fromkeys(settings, test.__name__))
        return test

    return note


def test_every_setting_has_a_proof():
    assert set(settings_page.names()) == HERE.keys() | ELSEWHERE.keys()


def test_no_setting_is_proved_twice():
    assert HERE.keys() & ELSEWHERE.keys() == set()


@pytest.mark.parametrize("place", sorted(set(ELSEWHERE.values())))
def test_a_proof_that_is_elsewhere_exists(place):
    path, _, name = place.partition("::")
    tree = ast.parse((TESTS / path).read_text("utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def make(clock):
    """Makes apps with a few jobs."""
    apps = []

    def make(url="memory://", **settings):
        app = Tenure(url, clock=clock, **settings)
        apps.append(app)
        app.job(name="nothing")(lambda: None)
        app.job(name="fail")(_fail)
        return app

    yield make
    for app in apps:
        app.close()


def _fail():
    raise ValueError("no")


@proves("url")
def test_the_url_says_where_jobs_wait(make, tmp_path):
    id = make(f"sqlite:///{tmp_path}/jobs.db").define("nothing").dispatch()
    assert make(f"sqlite:///{tmp_path}/jobs.db").backend.jobs.find(id).state == "ready"
    assert make().backend.jobs.find(id) is None


@proves("environment")
def test_a_schedule_runs_only_in_its_environments(make):
    for name, state in {"staging": "enqueued", "production": "skipped"}.items():
        app = make(environment=name)
        app.schedule("nothing").every_minute().environments("staging")
        assert [ran.record.state for ran in app.cron.run(only=["nothing"])] == [state]


@proves("queues")
def test_a_worker_serves_the_queues_of_the_settings(make):
    app = make(queues=["b", "a"])
    ids = [app.define("nothing").queue(queue).dispatch() for queue in ("a", "b", "c")]
    app.worker(burst=True).run()
    assert [app.backend.jobs.find(id).state for id in ids] == ["done", "done", "ready"]


@proves("verify")
@pytest.mark.parametrize(("verify", "state"), [(True, "dead"), (False, "done")])
def test_signatures_are_checked_unless_that_is_switched_off(make, tmp_path, verify, state):
    url = f"sqlite:///{tmp_path}/jobs.db"
    forger, honest = (Key("k1", token_bytes(32)).dump() for _ in range(2))
    id = make(url, keys=[forger]).define("nothing").dispatch()
    app = make(url, keys=[honest], verify=verify)
    unsigned = app.backend.jobs.find(id).body.replace(id.encode(), b"unsigned")
    unsigned = unsigned[: unsigned.index(b',"_sig"')] + b"}"
    app.backend.put([Message(id="unsigned", queue="default", body=unsigned, handler="nothing")])
    run_due(app)
    assert [app.backend.jobs.find(each).state for each in (id, "unsigned")] == [state, state]


@proves("max_bytes")
def test_a_message_is_no_larger_than_the_settings_allow(make):
    big = {"text": "x" * 2000}
    app = make(max_bytes=1024)
    app.register("take", type("Take", (), {"handle": lambda self, payload: None}))
    with pytest.raises(TenureError, match="1024"):
        app.define("take", big).dispatch()
    app.define("take", {"text": "x"}).dispatch()


@proves("max_retries")
def test_jobs_have_the_retries_of_the_settings_unless_they_say_otherwise(make):
    app = make(max_retries=1, backoff={"strategy": "none"})
    app.define("fail").dispatch()
    assert run_due(app) == {"requeued": 1, "dead-lettered": 1}


@proves("breaker_threshold", "breaker_cooldown")
def test_a_breaker_opens_after_so_many_failures_and_for_so_long(make, clock):
    breaker = make(breaker_threshold=2, breaker_cooldown=30).guards.breaker("stripe")
    states = []
    for _ in range(2):
        with pytest.raises(ValueError, match="no"), breaker.closed():
            _fail()
        states.append(breaker.state())
    clock.advance(29)
    states.append(breaker.state())
    clock.advance(2)
    assert [*states, breaker.state()] == ["closed", "open", "open", "half_open"]


@proves("default_timeout")
def test_an_attempt_takes_no_longer_than_the_settings_allow(make):
    app = make(default_timeout=0.05)
    app.job(name="sleep")(lambda: time.sleep(50))
    id = app.define("sleep").dispatch()
    run_due(app)
    assert app.backend.jobs.find(id).reason == "timeout"


@proves("unknown_timeout")
def test_a_job_waits_for_its_handler_for_so_long(make, clock, tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = make(url)
    app.job(name="new")(lambda: None)
    app.define("new").dispatch()
    old = make(url, unknown_timeout=60)
    assert run_due(old) == {"postponed": 1}
    clock.advance(61)
    assert run_due(old) == {"dead-lettered": 1}


@proves("lease")
def test_leases_last_as_long_as_the_settings_say(make, clock):
    app = make(lease=7)
    app.define("nothing").dispatch()
    leased = []
    real = app.backend.lease

    def lease(*arguments, **options) -> list[Lease]:
        leased.append(options["seconds"])
        return real(*arguments, **options)

    app.backend.lease = lease
    app.worker(burst=True).run()
    assert set(leased) == {7.0}


@proves("recycle_after", "max_memory")
@pytest.mark.parametrize("worn", [{"recycle_after": 1}, {"max_memory": 0.001}])
def test_a_worker_ends_after_so_many_jobs_or_above_so_much_memory(make, worn, run_within):
    app = make(**worn)
    for _ in range(3):
        app.define("nothing").dispatch()
    assert run_within(app.worker())["acked"] == 1


@proves("refresh_interval")
def test_queue_classes_are_refreshed_that_often(make):
    refreshed = []

    class Films:
        name = "films"

        @staticmethod
        def refresh(worker):
            refreshed.append(worker)
            if len(refreshed) == 3:
                at_work.stop()

    at_work = make(refresh_interval=0.01).worker(Films)
    at_work.run()
    assert len(refreshed) >= 3


@proves("hook_timeout")
def test_a_hook_takes_no_longer_than_the_settings_allow(make, caplog, eventually):
    release = threading.Event()

    class Films:
        name = "films"

        @staticmethod
        def setup(worker):
            release.wait(50)

    at_work = make(hook_timeout=0.05).worker(Films)
    thread = threading.Thread(target=at_work.run)
    with caplog.at_level(logging.WARNING):
        thread.start()
        eventually(lambda: "setup of queue 'films' ran past its 0.05 s" in caplog.text)
    release.set()
    at_work.stop()
    thread.join()


@proves("log_keep")
def test_so_many_files_of_a_dated_log_are_kept(make, tmp_path):
    for day in (1, 2, 3):
        (tmp_path / f"jobs-2020-01-0{day}.log").touch()
    app = make(execution_log=f"{tmp_path}/jobs-%Y-%m-%d.log", log_keep=2)
    app.define("nothing").dispatch()
    run_due(app)
    assert [path.name for path in sorted(tmp_path.glob("*.log"))][:-1] == ["jobs-2020-01-03.log"]


@proves("retention", "retention.done", "retention.cancelled", "retention.expired", "retention.dead")
@pytest.mark.parametrize("state", ["done", "cancelled", "expired", "dead"])
def test_ended_jobs_are_kept_for_so_many_days(make, clock, state):
    others = {each: 0 for each in ("done", "cancelled", "expired", "dead", "statistics") if each != state}
    app = make(retention={**others, state: 2})
    ids = {
        "done": app.define("nothing").dispatch(),
        "dead": app.define("fail").dispatch(),
        "expired": app.define("nothing").expires_at(to_datetime(clock.now()) + timedelta(seconds=1)).dispatch(),
        "cancelled": app.define("nothing").delay(5).dispatch(),
    }
    app.cancel(ids["cancelled"])
    clock.advance(1)
    run_due(app)
    assert {name: app.backend.jobs.find(id).state for name, id in ids.items()} == {name: name for name in ids}
    clock.advance(1.9 * DAY)
    app.clean()
    assert all(app.backend.jobs.find(id) for id in ids.values())
    clock.advance(0.2 * DAY)
    app.clean()
    assert [name for name, id in ids.items() if app.backend.jobs.find(id) is None] == [state]


@proves("retention.statistics")
def test_statistics_are_kept_for_so_many_days(make, clock):
    app = make(retention={"statistics": 2})
    app.define("nothing").dispatch()
    run_due(app)
    clock.advance(1.9 * DAY)
    app.clean()
    assert [each.done for each in app.statistics("7d")] == [1]
    clock.advance(0.2 * DAY)
    app.clean()
    assert app.statistics("7d") == []


@proves("retention.audit")
def test_audit_records_are_kept_for_so_many_days(make, clock):
    app = make(retention={"audit": 2})
    record = AuditRecord(id="a", at=clock.now(), actor="ada", action="queue.pause", target="mail")
    app.parts().audit.save(record)
    clock.advance(1.9 * DAY)
    app.clean()
    assert app.parts().audit.page(limit=9) == [record]
    clock.advance(0.2 * DAY)
    app.clean()
    assert app.parts().audit.page(limit=9) == []


@proves("retention.payloads")
def test_payloads_of_ended_jobs_are_kept_for_so_many_days(make, clock, tmp_path):
    app = make(f"sqlite:///{tmp_path}/jobs.db", retention={"payloads": 2})
    id = app.define("nothing").dispatch()
    run_due(app)
    clock.advance(1.9 * DAY)
    app.clean()
    assert app.backend.jobs.find(id).body
    clock.advance(0.2 * DAY)
    app.clean()
    assert app.backend.jobs.find(id).is_erased


@proves("retention.payload_bytes")
def test_payloads_of_ended_jobs_take_at_most_so_many_bytes(make, clock, tmp_path):
    app = make(f"sqlite:///{tmp_path}/jobs.db", retention={"payload_bytes": 1000})
    ids = [app.define("nothing").dispatch() for _ in range(5)]
    run_due(app)
    clock.advance(120)
    app.clean()
    kept = sum(len(app.backend.jobs.find(id).body or b"") for id in ids)
    assert 500 < kept <= 1000


@proves("shell.open_files", "shell.processes")
def test_a_program_may_have_so_many_files_and_processes(make):
    app = make(shell={"allow": ["/bin/sh"], "open_files": 77, "processes": 4321})
    id = app.define("shell", ["/bin/sh", "-c", "cat /proc/self/limits"]).dispatch()
    run_due(app)
    lines = app.backend.jobs.find(id).output.splitlines()
    limits = {line[:25].strip(): line[25:].split()[0] for line in lines}
    assert (limits["Max open files"], limits["Max processes"]) == ("77", "4321")


def send(url, **rules):
    permitted = Http(**{"allow": ("*",), "schemes": ("http",), "networks": ("127.0.0.0/8",), **rules})
    context = Context(id="1", handler="url", payload=None, queue="default")
    return Sender(permitted, lambda host, port: ["127.0.0.1"]).perform(context, Request(url=url))


@proves("http.schemes", "http.methods", "http.ports")
@pytest.mark.parametrize(
    ("rules", "says"),
    [({"schemes": ("https",)}, "scheme"), ({"methods": ("POST",)}, "method"), ({"ports": (443,)}, "port")],
)
def test_a_request_has_only_schemes_methods_and_ports_of_the_settings(rules, says):
    with pytest.raises(Refused, match=says):
        send("http://example.com/", **rules)


@proves("http.max_head")
def test_the_head_of_an_answer_is_no_larger_than_the_settings_allow():
    server = Server(response(body=b"ok", x_long="x" * 2000))
    url = f"http://example.com:{server.port}/"
    assert send(url, ports=(server.port,)) == "ok"
    with pytest.raises(RequestFailed, match="larger than the settings allow"):
        send(url, ports=(server.port,), max_head=1000)
    server.close()


@proves("http.connect_timeout")
def test_connecting_takes_no_longer_than_the_settings_allow(monkeypatch):
    waited = []

    class RecordedSocket(socket.socket):
        def settimeout(self, seconds):
            waited.append(seconds)

    # Only in the module of the handler: threads of other tests may use sockets meanwhile.
    monkeypatch.setattr(url_handler, "socket", SimpleNamespace(**{**vars(socket), "socket": RecordedSocket}))
    with pytest.raises(RequestFailed, match="cannot be reached"):
        send("http://example.com:1/", ports=(1,), connect_timeout=0.125)
    assert waited == [0.125]
