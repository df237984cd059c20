"""The shell handler runs allowed programs only, in a clean environment, within limits, and leaves no process behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.errors import Refused
from tests.support.waiting import eventually, is_alive

PYTHON = os.path.realpath(sys.executable)
ECHO, SH, SLEEP, TRUE = "/bin/echo", "/bin/sh", "/bin/sleep", "/bin/true"
FOREVER = 600  # seconds: longer than any wait of a test


@pytest.fixture
def run_shell(make_app, outcome_of):
    """Runs one argv under these permissions, and gives the job's record."""

    def run(argv, options=None, **permitted):
        return outcome_of(make_app(shell={"allow": [argv[0]], **permitted}), "shell", argv, **options or {})

    return run


def test_the_output_of_a_program_is_the_result(run_shell):
    record = run_shell([ECHO, "hello", "$HOME; *"])

    assert (record.state, record.output) == ("done", "hello $HOME; *\n")


def test_without_an_allowlist_nothing_runs_and_the_message_says_what_to_set(make_app):
    with pytest.raises(Refused, match=r"'shell\.allow'.*\[tool\.tenure\.shell\]"):
        make_app().define("shell", [ECHO]).dispatch()


def test_a_program_that_is_not_named_is_refused_where_it_is_enqueued(make_app):
    with pytest.raises(Refused, match="does not name it"):
        make_app(shell={"allow": [ECHO]}).define("shell", [SH, "-c", "id"]).dispatch()


def test_a_refused_message_is_a_dead_letter_at_once_in_a_worker(make_app, tmp_path):
    url = f"sqlite:///{tmp_path}/queue.db"
    id = make_app(url, shell={"allow": [ECHO]}).define("shell", [ECHO]).max_retries(5).dispatch()
    strict = make_app(url, shell={"allow": [SLEEP]})

    strict.worker(burst=True).run()

    record = strict.backend.jobs.find(id)
    assert (record.state, record.reason, record.attempts) == ("dead", "forbidden", 0)


def test_the_allowlist_can_be_opened_explicitly(make_app, outcome_of):
    assert outcome_of(make_app(shell={"allow_all": True}), "shell", [ECHO, "x"]).output == "x\n"


def test_an_open_allowlist_that_names_programs_is_not_open(make_app):
    with pytest.raises(Refused):
        make_app(shell={"allow_all": True, "allow": [ECHO]}).define("shell", [SLEEP, "0"]).dispatch()


@pytest.mark.parametrize("argv", [[], ["echo", "x"], ["./echo"], [""], ["/bin/../bin/sh", "-c", "id"]])
def test_only_absolute_paths_of_allowed_programs_pass(make_app, argv):
    with pytest.raises(Refused):
        make_app(shell={"allow": [ECHO]}).define("shell", argv).dispatch()


def test_a_link_to_an_allowed_program_is_that_program_under_its_allowed_name(make_app, outcome_of, tmp_path):
    """A program that acts by its name, as busybox does, acts by the name that was allowed."""
    (tmp_path / "sh").symlink_to(PYTHON)
    argv = [str(tmp_path / "sh"), "-c", "import sys; print(sys.orig_argv[0])"]

    record = outcome_of(make_app(shell={"allow": [PYTHON]}), "shell", argv)

    assert record.output == f"{PYTHON}\n"


def test_a_program_that_others_may_write_is_refused(run_shell, tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o777)

    record = run_shell([str(program)])

    assert (record.reason, "chmod go-w" in record.failures[-1].message) == ("forbidden", True)


def test_a_program_that_others_may_replace_is_refused(run_shell, tmp_path):
    """A folder far above the program, too: whoever can rename it can put another one in its place."""
    program = tmp_path / "shared" / "bin" / "program"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert run_shell([str(program)]).state == "done"

    program.parents[1].chmod(0o777)

    record = run_shell([str(program)])
    assert (record.reason, "/shared'; run chmod go-w" in record.failures[-1].message) == ("forbidden", True)


@pytest.fixture
def multi_call(tmp_path):
    """Two programs in one file, which acts by its name."""
    program = tmp_path / "box"
    program.write_text("#!/bin/sh\necho $0\n")
    program.chmod(0o755)
    for name in ("rm", "echo"):
        (tmp_path / name).symlink_to(program)
    return {name: str(tmp_path / name) for name in ("box", "rm", "echo")}


def test_of_entries_that_share_a_file_the_one_that_was_named_runs_by_its_own_rules(make_app, multi_call):
    app = make_app(
        shell={
            "allow": [multi_call["rm"], multi_call["echo"]],
            "arguments": {multi_call["echo"]: [{"pattern": "[a-z]+"}]},
        }
    )

    with pytest.raises(Refused, match=r"argument 1 of '.*/echo'"):
        app.define("shell", [multi_call["echo"], "victim.txt"]).dispatch()


def test_another_name_of_a_file_that_several_entries_share_is_refused(make_app, multi_call):
    app = make_app(shell={"allow": [multi_call["rm"], multi_call["echo"]]})

    with pytest.raises(Refused, match=r"box' may not run: it is the file of '.*/rm' and '.*/echo'; name one of them"):
        app.define("shell", [multi_call["box"]]).dispatch()


def test_declared_arguments_are_checked(make_app):
    app = make_app(shell={"allow": [ECHO], "arguments": {ECHO: [{"integer": [1, 9]}]}})

    with pytest.raises(Refused, match="argument 1 of '/bin/echo'"):
        app.define("shell", [ECHO, "-n"]).dispatch()


def test_a_program_sees_nothing_of_the_workers_environment(run_shell, monkeypatch):
    for name in ("TENURE_ENVIRONMENT", "LD_LIBRARY_PATH", "PYTHONPATH", "IFS", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a-canary")

    record = run_shell(["/usr/bin/env"], environment={"TZ": "Asia/Tokyo"})

    names = {line.partition("=")[0] for line in record.output.splitlines()}
    assert names == {"PATH", "LC_ALL", "HOME", "TMPDIR", "TZ"}


def test_a_program_works_in_a_folder_of_its_own_that_is_gone_afterwards(run_shell):
    record = run_shell([SH, "-c", "pwd; umask; echo secret > note; stat -c %a note ."])

    folder, umask, *modes = record.output.split()
    assert (umask, modes) == ("0077", ["600", "700"])
    assert not Path(folder).exists()


def test_a_program_gets_no_input_and_no_descriptors(run_shell):
    record = run_shell(
        [PYTHON, "-c", "import os, sys; print(sys.stdin.read() == '', sorted(os.listdir('/proc/self/fd')))"]
    )

    assert record.output.startswith("True ['0', '1', '2', ")
    assert len(record.output.split()) == 5  # and the one that lists them


def test_a_program_gains_no_privileges_and_dumps_no_core(run_shell):
    record = run_shell([SH, "-c", "grep NoNewPrivs /proc/self/status; ulimit -c; ulimit -n"], open_files=64)

    assert record.output.split() == ["NoNewPrivs:", "1", "0", "64"]


def test_a_program_ignores_and_blocks_no_signal(run_shell):
    record = run_shell(["/bin/grep", "-E", "Sig(Ign|Blk)", "/proc/self/status"])

    ordinary = (1 << 31) - 1  # the C library keeps some of the real-time signals to itself
    assert [int(line.split()[1], 16) & ordinary for line in record.output.splitlines()] == [0, 0]


def test_a_program_dies_with_its_worker(tmp_path):
    script = (
        "from tenure import Tenure\n"
        f"app = Tenure('sync://', shell={{'allow': ['{SH}']}})\n"
        f"app.define('shell', ['{SH}', '-c', 'echo $$ > {tmp_path}/pid; exec sleep {FOREVER}']).dispatch()\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())

    worker.kill()
    worker.wait()

    eventually(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_memory_is_limited(run_shell):
    record = run_shell([PYTHON, "-c", "bytearray(400 * 1024 * 1024)"], memory=200)

    assert (record.state, "MemoryError" in record.failures[-1].message) == ("dead", True)


def test_the_size_of_files_is_limited(run_shell):
    record = run_shell([SH, "-c", "head -c 3000000 /dev/zero > big"], file_size=1)

    assert record.state == "dead"


def test_processor_time_is_limited(run_shell):
    record = run_shell([SH, "-c", "while :; do :; done"], cpu_seconds=1)

    assert "was killed by SIG" in record.failures[-1].message


def test_a_bad_exit_code_fails_with_the_code_and_the_last_output(run_shell):
    record = run_shell([SH, "-c", "echo out; echo err >&2; exit 3"])

    message = record.failures[-1].message
    assert (record.state, record.reason, record.attempts) == ("dead", "retries_exhausted", 1)
    assert "exit code 3" in message
    assert message.endswith("out\nerr")


def test_a_failure_is_retried_like_any_other(run_shell):
    assert run_shell([SH, "-c", "exit 1"], {"max_retries": 2, "backoff": "none"}).attempts == 3


def test_a_signal_is_named(run_shell):
    assert "was killed by SIGSEGV" in run_shell([SH, "-c", "kill -SEGV $$"]).failures[-1].message


def test_a_program_that_cannot_be_executed_fails_and_says_why(run_shell, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(b"\x7fELF")
    file.chmod(0o755)

    assert "cannot be run" in run_shell([str(file)]).failures[-1].message


def test_a_program_that_is_not_here_fails_and_can_be_retried(run_shell):
    record = run_shell(["/nonexistent/tool"])

    assert (record.reason, "is not on this machine" in record.failures[-1].message) == ("retries_exhausted", True)


def test_a_flood_of_output_is_read_to_the_end_and_kept_in_part(run_shell):
    script = "import sys; sys.stdout.write('a' * 3000000); sys.stderr.write('b' * 3000000); print('end')"

    record = run_shell([PYTHON, "-c", script], max_output=1000)

    assert record.output == f"{'a' * 1000}… (3000004 bytes in all)"


def test_past_the_attempts_timeout_the_whole_group_is_killed(run_shell, tmp_path):
    script = f"{SH} -c '{SLEEP} {FOREVER}; true' \"$0\" & wait"

    record = run_shell([SH, "-c", script, str(tmp_path)], {"timeout": 1})

    assert record.reason == "timeout"
    eventually(lambda: not processes_with(tmp_path))  # a signal to a group does not wait


def processes_with(argument):
    """The processes that have this argument; the program or its child may not have started before the timeout."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if os.fsencode(argument) in arguments_of(path)]


def arguments_of(path):
    try:
        return path.read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return []


def test_past_the_settings_timeout_the_whole_group_is_killed(run_shell):
    record = run_shell([SLEEP, str(FOREVER)], timeout=0.3)

    assert "longer than its settings allow" in record.failures[-1].message


def test_what_a_program_leaves_running_is_killed_and_does_not_hold_the_job(run_shell, tmp_path):
    record = run_shell([SH, "-c", f"{SLEEP} {FOREVER} & echo $! > {tmp_path}/pid; echo done"])

    assert record.output == "done\n"
    eventually(lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_a_program_that_closes_its_output_is_waited_for(run_shell):
    assert run_shell([SH, "-c", "exec >&- 2>&-; sleep 0.3; exit 4"]).failures[-1].message.startswith("'/bin/sh' ended")


def test_the_payload_must_be_a_list(make_app):
    with pytest.raises(ValueError, match="Expected `array`"):
        make_app(shell={"allow": [ECHO]}).define("shell", "/bin/echo x").dispatch()


def test_the_note_about_a_flood_of_output_fits_into_the_record(run_shell):
    record = run_shell([PYTHON, "-c", "import sys; sys.stdout.write('a' * 70000)"])

    assert record.output.endswith("a… (70000 bytes in all)")
    assert record.run.output_length is None
