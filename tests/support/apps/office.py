"""Console commands that tests declare by name; run as a module, it prints its arguments and exits with the first."""

# ruff: noqa: T201 - printing is what console commands do

import sys
import time

import click


@click.command()
@click.option("--month", type=int, required=True)
@click.option("--fail", is_flag=True)
def report(month, fail):
    click.echo(f"report for {month}")
    if fail:
        raise click.ClickException("the printer is on fire")


@click.group()
def office():
    """Several commands."""


@office.command()
@click.pass_context
def close(ctx):
    ctx.exit(4)


office.add_command(report)


def main(argv):
    print("main", *argv)
    return int(argv[0]) if argv else None


async def main_later(argv):
    print("never awaited", argv)


def bare():
    return {"rows": 3}


def leave(argv):
    sys.exit(" ".join(argv) or 0)


def not_callable():
    """Stands for one that is."""


value = 5

if __name__ == "__main__":
    print(*sys.argv[1:])
    if sys.argv[1:] == ["sleep"]:
        time.sleep(60)
    sys.exit(int(sys.argv[1]))
