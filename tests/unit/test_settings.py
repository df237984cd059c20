"""Settings: four sources in order, every mistake with its place, no secret shown."""

import pytest
import rich.pretty

from tenure import Tenure
from tenure.errors import SettingsError
from tenure.settings import Retention, Settings, load, load_with_origins, named_queues, origin_of
from tenure.settings.environment import warn_of_unknown
from tenure.wire.signing import new_key


@pytest.fixture
def write(tmp_path):
    """Writes a file of settings into the folder that is looked at."""

    def write(name, text):
        (tmp_path / name).write_text(text)

    return write


def test_without_any_source_the_defaults_hold(tmp_path):
    assert load(folder=tmp_path) == Settings()


def test_the_default_is_an_embedded_database_in_this_folder():
    assert Settings().url == "sqlite:///tenure.db"


def test_a_file_goes_before_the_defaults(tmp_path, write):
    write("tenure.toml", "lease = 20")

    assert load(folder=tmp_path).lease == 20.0


def test_the_environment_goes_before_a_file(tmp_path, write):
    write("tenure.toml", "lease = 20")

    assert load(environment={"TENURE_LEASE": "30"}, folder=tmp_path).lease == 30.0


def test_arguments_go_before_everything(tmp_path, write):
    write("tenure.toml", "lease = 20")

    assert load({"lease": 40}, {"TENURE_LEASE": "30"}, tmp_path).lease == 40.0


def test_settings_may_live_in_pyproject(tmp_path, write):
    write("pyproject.toml", "[tool.tenure]\nlease = 20\n[tool.other]\nlease = 5")

    assert load(folder=tmp_path).lease == 20.0


def test_a_pyproject_without_our_table_changes_nothing(tmp_path, write):
    write("pyproject.toml", "[project]\nname = 'app'")

    assert load(folder=tmp_path) == Settings()


def test_tenure_toml_goes_before_pyproject(tmp_path, write):
    write("tenure.toml", "lease = 30")
    write("pyproject.toml", "[tool.tenure]\nlease = 20\nmax_retries = 3")

    settings = load(folder=tmp_path)

    assert (settings.lease, settings.max_retries) == (30.0, 0)


def test_tables_are_merged_key_by_key(tmp_path, write):
    write("tenure.toml", "[retention]\ndone = 1\ndead = 2")

    settings = load({"retention": {"dead": 4}}, {"TENURE_RETENTION__CANCELLED": "3"}, tmp_path)

    assert settings.retention == Retention(done=1.0, cancelled=3.0, dead=4.0)


def test_a_worker_serves_priority_before_default_unless_told_otherwise(tmp_path):
    assert load(folder=tmp_path).queues == ("priority", "default")


@pytest.mark.parametrize(
    ("given", "queues"), [({}, ("default",)), ({"queues": ["priority", "default"]}, ("priority", "default"))]
)
def test_on_service_bus_where_queues_must_be_created_only_default_is_served(tmp_path, given, queues):
    assert load({"url": "servicebus:Endpoint=sb://x", **given}, folder=tmp_path).queues == queues


def test_lists_are_replaced_whole(tmp_path, write):
    write("tenure.toml", 'queues = ["a", "b"]')

    assert load({"queues": ["c"]}, folder=tmp_path).queues == ("c",)


@pytest.mark.parametrize(
    ("variable", "text", "setting", "value"),
    [
        ("TENURE_URL", "memory://", "url", "memory://"),
        ("TENURE_MAX_RETRIES", "3", "max_retries", 3),
        ("TENURE_LEASE", "2.5", "lease", 2.5),
        ("TENURE_VERIFY", "false", "verify", False),
        ("TENURE_VERIFY", "1", "verify", True),
        ("TENURE_DEFAULT_TIMEOUT", "30", "default_timeout", 30.0),
        ("TENURE_DEFAULT_TIMEOUT", "", "default_timeout", None),
        ("TENURE_QUEUES", "emails, reports ,default", "queues", ("emails", "reports", "default")),
        ("TENURE_KEYS", "", "keys", ()),
        ("TENURE_ALIASES", '{"mail": "emails"}', "aliases", {"mail": "emails"}),
        ("TENURE_ALIASES__MAIL", "emails", "aliases", {"mail": "emails"}),
        ("TENURE_ALLOW", '{"emails": ["send"]}', "allow", {"emails": ("send",)}),
        ("TENURE_ALLOW__EMAILS", "send,ping", "allow", {"emails": ("send", "ping")}),
        ("TENURE_ALLOW__CLOSED", "", "allow", {"closed": ()}),
        ("TENURE_RETENTION__DONE", "3", "retention", Retention(done=3.0)),
        ("TENURE_RETENTION", '{"done": 3}', "retention", Retention(done=3.0)),
        ("TENURE_BACKENDS__FAST", "redis://x", "backends", {"fast": "redis://x"}),
    ],
)
def test_a_variable_is_read_as_the_type_of_its_setting(tmp_path, variable, text, setting, value):
    assert getattr(load(environment={variable: text}, folder=tmp_path), setting) == value


def test_a_member_goes_before_its_table_in_the_environment(tmp_path):
    environment = {"TENURE_RETENTION__DONE": "3", "TENURE_RETENTION": '{"done": 1, "dead": 2}'}

    assert load(environment=environment, folder=tmp_path).retention == Retention(done=3.0, dead=2.0)


def test_variables_of_other_programs_are_ignored(tmp_path):
    assert load(environment={"LEASE": "1", "TENURESHIP": "x", "PATH": "/bin"}, folder=tmp_path) == Settings()


def test_a_secret_may_be_in_a_file(tmp_path, write):
    write("key.txt", "k1:abc\n")

    settings = load(environment={"TENURE_KEYS_FILE": str(tmp_path / "key.txt")}, folder=tmp_path)

    assert settings.keys == ("k1:abc",)


def test_any_setting_may_be_in_a_file(tmp_path, write):
    write("url.txt", "postgres://user:secret@db/app")

    settings = load(environment={"TENURE_URL_FILE": str(tmp_path / "url.txt")}, folder=tmp_path)

    assert settings.url == "postgres://user:secret@db/app"


def test_a_secret_file_that_cannot_be_read_is_named_with_its_variable(tmp_path):
    with pytest.raises(SettingsError, match=r"TENURE_KEYS_FILE names a file that cannot be read: .*nowhere\.txt"):
        load(environment={"TENURE_KEYS_FILE": str(tmp_path / "nowhere.txt")}, folder=tmp_path)


def test_a_secret_file_that_others_can_read_is_used_as_containers_mount_them_so(tmp_path, write):
    write("key.txt", "k1:abc\n")
    (tmp_path / "key.txt").chmod(0o444)

    assert load(environment={"TENURE_KEYS_FILE": str(tmp_path / "key.txt")}, folder=tmp_path).keys == ("k1:abc",)


def test_a_secret_file_that_others_can_write_is_refused(tmp_path, write):
    write("key.txt", "k1:abc\n")
    (tmp_path / "key.txt").chmod(0o646)

    with pytest.raises(SettingsError, match=r"TENURE_KEYS_FILE names a file that other users can change: .*chmod go-w"):
        load(environment={"TENURE_KEYS_FILE": str(tmp_path / "key.txt")}, folder=tmp_path)


def test_a_setting_that_is_given_in_a_variable_and_in_a_file_is_refused(tmp_path, write):
    write("key.txt", "k1:abc\n")
    both = {"TENURE_KEYS": "k2:def", "TENURE_KEYS_FILE": str(tmp_path / "key.txt")}

    with pytest.raises(SettingsError, match=r"^TENURE_KEYS and TENURE_KEYS_FILE are both set; remove one of them$"):
        load(environment=both, folder=tmp_path)

    assert load(environment={**both, "TENURE_KEYS": ""}, folder=tmp_path).keys == ("k1:abc",)


def test_an_unknown_setting_in_a_file_is_named_with_the_file(tmp_path, write):
    write("tenure.toml", "leese = 20")

    with pytest.raises(SettingsError, match=r"tenure\.toml: unknown setting `leese`; did you mean `lease`\?$"):
        load(folder=tmp_path)


def test_an_unknown_setting_in_pyproject_is_named_with_the_table(tmp_path, write):
    write("pyproject.toml", "[tool.tenure]\nleese = 20")

    with pytest.raises(SettingsError, match=r"\[tool\.tenure\] in .*pyproject\.toml: unknown setting `leese`"):
        load(folder=tmp_path)


def test_a_name_that_is_like_no_setting_gets_no_suggestion(tmp_path, write):
    write("tenure.toml", "zebra = 20")

    with pytest.raises(SettingsError, match=r"unknown setting `zebra`; see the settings reference for what exists$"):
        load(folder=tmp_path)


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("TENURE_LEESE", "did you mean TENURE_LEASE?"),
        ("TENURE_RETENTION__DOEN", "did you mean TENURE_RETENTION__DONE?"),
        ("TENURE_MAIL_PORT", "did you mean TENURE_MAIL__PORT?"),
        ("TENURE_LANES__BULK__QUUES", "did you mean TENURE_LANES__BULK__QUEUES?"),
        ("TENURE_KEYZ_FILE", "did you mean TENURE_KEYS_FILE?"),
        ("TENURE_ZEBRA", "see the settings reference"),
        ("TENURE_URL__ADDRESS", "see the settings reference"),
    ],
)
def test_an_unknown_variable_gets_a_warning_and_changes_nothing(tmp_path, caplog, variable, says):
    environment = {variable: "20", "TENURE_LEASE": "30"}

    warn_of_unknown(environment)

    assert caplog.messages == [f"the environment variable {variable} is no setting and has no effect; {says}"]
    assert load(environment=environment, folder=tmp_path) == Settings(lease=30.0)


KUBERNETES = {  # what a pod gets beside the services "tenure" and "tenure-web"
    "TENURE_SERVICE_HOST": "10.96.4.7",
    "TENURE_SERVICE_PORT": "6379",
    "TENURE_SERVICE_PORT_HTTP": "80",
    "TENURE_PORT": "tcp://10.96.4.7:6379",
    "TENURE_PORT_6379_TCP": "tcp://10.96.4.7:6379",
    "TENURE_PORT_6379_TCP_PROTO": "tcp",
    "TENURE_PORT_6379_TCP_PORT": "6379",
    "TENURE_PORT_6379_TCP_ADDR": "10.96.4.7",
    "TENURE_WEB_SERVICE_HOST": "10.96.4.8",
    "TENURE_WEB_SERVICE_PORT": "80",
    "TENURE_WEB_SERVICE_PORT_METRICS": "9100",
    "TENURE_WEB_PORT": "udp://10.96.4.8:80",
    "TENURE_WEB_PORT_80_UDP": "udp://10.96.4.8:80",
    "TENURE_WEB_PORT_80_UDP_ADDR": "10.96.4.8",
}


def test_the_variables_of_kubernetes_are_ignored_without_a_word(tmp_path, caplog):
    warn_of_unknown(KUBERNETES)

    assert caplog.messages == []
    assert load(environment=KUBERNETES, folder=tmp_path) == Settings()


def test_an_app_logs_a_warning_for_an_unknown_variable(monkeypatch, caplog):
    monkeypatch.setenv("TENURE_LEESE", "20")

    with Tenure("memory://"):
        assert [record.name for record in caplog.records] == ["tenure.settings.environment"]


def test_a_known_variable_with_a_wrong_value_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="the environment: Expected `float`, got `str` - at `lease`"):
        load(environment={"TENURE_LEASE": "soon"}, folder=tmp_path)


def test_an_unknown_setting_in_the_arguments_is_named(tmp_path):
    with pytest.raises(SettingsError, match="the arguments: unknown setting `leese`"):
        load({"leese": 20}, folder=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [({"retention": {"doen": 1}}, {}), ({}, {"TENURE_RETENTION": '{"doen": 1}'})],
)
def test_an_unknown_nested_setting_is_named_with_its_table(tmp_path, arguments, environment):
    with pytest.raises(SettingsError, match=r"unknown setting `doen` - at `retention`; did you mean `done`\?$"):
        load(arguments, environment, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lease": "soon"}, "Expected `float`, got `str` - at `lease`"),
        ({"queues": "emails"}, "Expected `array`, got `str` - at `queues`"),
        ({"queues": [1]}, r"Expected `str`, got `int` - at `queues\[0\]`"),
        ({"retention": {"done": "a week"}}, r"Expected `float`, got `str` - at `retention\.done`"),
        ({"verify": "perhaps"}, "Expected `bool`, got `str` - at `verify`"),
        ({"lease": 0.5}, "lease must be at least 1 second"),
        ({"lease": float("nan")}, "lease must be at least 1 second"),
        ({"max_bytes": 10}, "max_bytes must be at least 1024"),
        ({"queues": []}, "queues must name at least one queue"),
        ({"refresh_interval": 0}, "refresh_interval must be more than 0 seconds"),
        ({"default_timeout": 0}, "default_timeout must be more than 0 seconds; leave it out for no limit"),
        ({"retention": {"done": -1}}, r"retention\.done must be at least 0 days \(0 keeps for ever\)"),
    ],
)
def test_a_wrong_value_is_named_with_its_setting(tmp_path, arguments, message):
    with pytest.raises(SettingsError, match=f"the arguments: {message}"):
        load(arguments, folder=tmp_path)


def test_a_table_in_the_environment_must_be_json(tmp_path):
    with pytest.raises(SettingsError, match="TENURE_ALIASES must be a JSON object"):
        load(environment={"TENURE_ALIASES": "mail=emails"}, folder=tmp_path)


def test_a_member_of_a_setting_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="TENURE_RETENTION__DONE sets a member of 'retention', which is set to a"):
        load(environment={"TENURE_RETENTION": "[1]", "TENURE_RETENTION__DONE": "1"}, folder=tmp_path)


def test_a_file_that_is_not_toml_is_named(tmp_path, write):
    write("tenure.toml", "lease = = 20")

    with pytest.raises(SettingsError, match=r"tenure\.toml cannot be read: "):
        load(folder=tmp_path)


def test_settings_are_immutable():
    with pytest.raises(AttributeError):
        Settings().lease = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("shown", [repr, str, rich.pretty.pretty_repr])
def test_settings_are_shown_without_secrets(shown):
    settings = Settings(
        url="postgres://user:hunter2@db/app", keys=("k1:hunter2",), backends={"fast": "redis://:hunter2@cache"}
    )

    assert "hunter2" not in shown(settings)


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ({"keys": "k1:hunter2"}, {}),
        ({"keys": [["k1:hunter2"]]}, {}),
        ({"url": {"password": "hunter2"}}, {}),
        ({}, {"TENURE_BACKENDS": '{"fast": "redis://:hunter2@cache"'}),
        ({}, {"TENURE_BACKENDS": '["redis://:hunter2@cache"]'}),
    ],
)
def test_the_message_of_a_wrong_setting_never_holds_a_secret(tmp_path, arguments, environment):
    with pytest.raises(SettingsError) as caught:
        load(arguments, environment, tmp_path)

    assert "hunter2" not in str(caught.value)


def test_lanes_are_tables_of_their_own(tmp_path, write):
    write("pyproject.toml", '[tool.tenure.lanes.bulk]\nqueues = ["reports"]\nrunner = "threads"\nconcurrency = 8')

    (name, lane) = next(iter(load(folder=tmp_path).lanes.items()))

    assert (name, lane.queues, lane.runner, lane.concurrency) == ("bulk", ("reports",), "threads", 8)


def test_the_environment_changes_a_part_of_a_lane(tmp_path, write):
    write("tenure.toml", '[lanes.bulk]\nqueues = ["reports"]\nconcurrency = 8')

    lane = load(environment={"TENURE_LANES__BULK__CONCURRENCY": "2"}, folder=tmp_path).lanes["bulk"]

    assert (lane.queues, lane.concurrency) == (("reports",), 2)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("quues = ['a']", r"lane 'bulk': unknown setting `quues`; did you mean `queues`\?"),
        ("concurrency = 'many'", "lane 'bulk': Expected `int`, got `str` - at `concurrency`"),
    ],
)
def test_a_mistake_in_a_lane_is_told_with_its_name(tmp_path, write, line, says):
    write("tenure.toml", f"[lanes.bulk]\n{line}")

    with pytest.raises(SettingsError, match=says):
        load(folder=tmp_path)


def test_the_url_override_goes_before_the_url_in_the_code(tmp_path):
    environment = {"TENURE_URL_OVERRIDE": "memory://"}

    assert load({"url": "sqlite:///prod.db"}, environment, tmp_path).url == "memory://"


def test_the_url_override_may_be_the_name_of_a_backend(tmp_path):
    arguments = {"url": "sqlite:///prod.db", "backends": {"spare": "redis://spare"}}

    assert load(arguments, {"TENURE_URL_OVERRIDE": "spare"}, tmp_path).url == "redis://spare"


def test_an_empty_url_override_changes_nothing(tmp_path):
    settings = load({"url": "sqlite:///prod.db"}, {"TENURE_URL_OVERRIDE": ""}, tmp_path)

    assert (settings.url, settings.is_overridden) == ("sqlite:///prod.db", False)


def test_the_url_option_of_a_command_goes_before_the_url_override(tmp_path):
    environment = {"TENURE_URL_OVERRIDE": "memory://", "TENURE_COMMAND_URL": "sync://"}

    settings = load({"url": "sqlite:///prod.db"}, environment, tmp_path)

    assert (settings.url, settings.is_overridden) == ("sync://", False)


def test_an_app_logs_which_url_was_overridden_without_its_secrets(monkeypatch, caplog):
    monkeypatch.setenv("TENURE_URL_OVERRIDE", "redis://:hunter3@test")
    caplog.set_level("INFO", "tenure.settings")

    with Tenure("redis://shop:hunter2@prod"):
        assert caplog.messages == ["url_override replaces the URL redis://***@prod by redis://***@test"]


def test_each_queue_has_one_spelling_in_all_settings(tmp_path, write):
    write(
        "tenure.toml",
        """
        queues = ["Reports", "mail"]
        allow = { reports = ["build"], MAIL = ["send"], Default = [] }
        rates = { REPORTS = 5 }
        [aliases]
        mail = "emails"
        papers = "reports"
        [lanes.slow]
        queues = ["papers"]
        weights = { reports = 2 }
        [scopes.web]
        queues = ["reports", "Papers"]
        [notifications.team]
        queues = ["reports"]
        job = "tell"
        """,
    )

    settings = load(folder=tmp_path)

    assert settings.queues == ("Reports", "emails")
    assert settings.allow == {"Reports": ("build",), "emails": ("send",), "default": ()}
    assert (settings.rates, settings.aliases) == ({"Reports": 5}, {"mail": "emails", "papers": "Reports"})
    assert (settings.lanes["slow"].queues, settings.lanes["slow"].weights) == (("Reports",), {"Reports": 2.0})
    assert (settings.scopes["web"].queues, settings.notifications["team"].queues) == (("Reports",), ("Reports",))
    assert {*named_queues(settings)} == {"Reports", "emails", "default"}


@pytest.mark.parametrize("table", ["allow", "rates"])
def test_a_table_that_names_a_queue_twice_is_refused(table):
    value = {"allow": ["send"], "rates": 5}[table]

    with pytest.raises(SettingsError, match=f"{table} names the queue 'reports' twice, also as 'Reports'; keep one"):
        load({table: {"reports": value, "Reports": value}})


ENVIRONMENT = {
    "TENURE_RETENTION__DEAD": "90",
    "TENURE_MAIL": '{"host": "smtp", "port": 25}',
    "TENURE_RATES": '{"post": 5}',
}


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("lease", "default"),
        ("stop_grace", "tenure.toml"),
        ("retention.done", "tenure.toml"),
        ("retention.dead", "TENURE_RETENTION__DEAD"),
        ("retention.expired", "default"),
        ("mail.port", "TENURE_MAIL"),
        ("mail.timeout", "default"),
        ("max_retries", "arguments"),
        ("lanes.slow.queues", "arguments"),
        ("rates.emails", "TENURE_RATES"),
    ],
)
def test_each_setting_knows_where_it_came_from(tmp_path, write, path, origin):
    write("tenure.toml", "stop_grace = 45\nmax_retries = 1\n[retention]\ndone = 3")
    arguments = {"max_retries": 2, "lanes": {"slow": {"queues": ["videos"]}}, "aliases": {"post": "emails"}}

    loaded = load_with_origins(arguments, ENVIRONMENT, tmp_path)

    assert origin_of(path, loaded.origins).removeprefix(f"{tmp_path}/") == origin


def test_the_origin_of_a_secret_in_a_file_is_the_variable_that_names_it(tmp_path, write):
    write("key", new_key("first").dump())
    (tmp_path / "key").chmod(0o600)

    loaded = load_with_origins(environment={"TENURE_KEYS_FILE": str(tmp_path / "key")}, folder=tmp_path)

    assert origin_of("keys", loaded.origins) == "TENURE_KEYS_FILE"


def test_a_replaced_url_says_what_replaced_it(tmp_path):
    override = load_with_origins({"url": "memory://"}, {"TENURE_URL_OVERRIDE": "sync://"}, tmp_path)
    command = load_with_origins({"url": "memory://"}, {"TENURE_COMMAND_URL": "sync://"}, tmp_path)

    assert (override.settings.url, override.origins["url"]) == ("sync://", "url_override, TENURE_URL_OVERRIDE")
    assert (command.settings.url, command.origins["url"]) == ("sync://", "--url")


def test_an_optional_list_in_the_environment_is_split_too():
    environment = {
        "TENURE_DASHBOARD__TOKENS__CI__SHA256": "0" * 64,
        "TENURE_DASHBOARD__TOKENS__CI__QUEUES": "emails, reports",
    }

    assert load(environment=environment).dashboard.tokens["ci"].queues == ("emails", "reports")
