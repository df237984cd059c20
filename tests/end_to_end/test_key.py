"""`tenure key` makes, lists and retires keys."""

from tenure.wire.signing import new_key, parse_key

OLD, NEW = new_key("spring").dump(), new_key("summer").dump()


def test_a_new_key_is_printed_alone_on_stdout(tenure):
    done = tenure("key", "new", "--kid", "autumn")
    assert parse_key(done.stdout).kid == "autumn"
    assert "TENURE_KEYS" in done.stderr


def test_the_list_shows_names_uses_and_scopes_and_no_secret(tenure):
    (tenure.folder / "tenure.toml").write_text('[scopes.spring]\nqueues = ["mail"]\n')
    tenure("db", "migrate")
    done = tenure("key", "list", TENURE_KEYS=f"{NEW},{OLD}")
    assert done.stdout.splitlines() == [
        "kid\tuse\tqueues\thandlers",
        "summer\tsigns\tall\tall",
        "spring\tverifies\tmail\tall",
    ]
    assert OLD.partition(":")[2] not in done.stdout


def test_a_key_that_messages_need_is_not_to_be_retired(tenure):
    with_old, rotated = {"TENURE_KEYS": OLD}, {"TENURE_KEYS": f"{NEW},{OLD}"}
    for _ in range(3):
        tenure("enqueue", "add", "--payload", '{"a": 1}', **with_old)
    tenure("enqueue", "fail", **with_old)
    tenure("work", "--once", "--runner", "inline", **rotated)
    tenure("enqueue", "add", "--payload", '{"a": 1}', **rotated)

    done = tenure("key", "retire", "spring", **rotated)

    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "3 of 4 waiting messages need key 'spring'",
        "0 of 0 dead letters need key 'spring'",
    ]
    assert "keep it until they are gone" in done.stderr


def test_a_dead_letter_needs_its_key_to_be_replayed(tenure):
    with_old, rotated = {"TENURE_KEYS": OLD}, {"TENURE_KEYS": f"{NEW},{OLD}"}
    tenure("enqueue", "fail", **with_old)
    tenure("work", "--burst", **rotated)
    done = tenure("key", "retire", "spring", "--json", **rotated)
    assert (done.returncode, '"need": 1' in done.stdout) == (1, True)


def test_a_key_that_nothing_needs_can_be_retired(tenure):
    tenure("db", "migrate")
    done = tenure("key", "retire", "spring", "--all", TENURE_KEYS=f"{NEW},{OLD}")
    assert done.returncode == 0
    assert "remove it from TENURE_KEYS" in done.stderr


def test_the_key_that_signs_cannot_be_retired(tenure):
    tenure("db", "migrate")
    done = tenure("key", "retire", "summer", TENURE_KEYS=f"{NEW},{OLD}")
    assert (done.returncode, "put another one first" in done.stderr) == (2, True)


def test_a_key_that_is_not_in_the_ring_cannot_be_retired(tenure):
    tenure("db", "migrate")
    done = tenure("key", "retire", "winter", TENURE_KEYS=f"{NEW},{OLD}")
    assert (done.returncode, "summer, spring" in done.stderr) == (2, True)
