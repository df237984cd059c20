"""`make fuzz`: with atheris if it is installed, guided by coverage, else with hypothesis and many examples."""

import argparse
import importlib.util
import subprocess
import sys

from tests.support.fuzz.targets import SEEDS, TARGETS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzz")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all when none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for each target, with atheris")
    parser.add_argument("--one", choices=TARGETS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        guided(arguments.one, arguments.seconds)
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: hypothesis tries 20000 examples a target")
        wanted = " or ".join(arguments.targets or TARGETS)
        command = ["-m", "pytest", "-q", "tests/unit/test_fuzzed_parsers.py", "-k", wanted]
        command += ["--hypothesis-profile=fuzz", "--timeout=3600"]
        return subprocess.call([sys.executable, *command])
    options = ["--seconds", str(arguments.seconds)]
    codes = [
        subprocess.call([sys.executable, "-m", "tests.support.fuzz", "--one", name, *options])
        for name in arguments.targets or TARGETS
    ]
    return max(codes)


def guided(name: str, seconds: int) -> None:
    """Ends the process; a failure is printed with the bytes that caused it."""
    import atheris

    atheris.instrument_all()
    tried = TARGETS[name]
    for seed in SEEDS[name]:
        tried(seed)
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=4096"], tried)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
