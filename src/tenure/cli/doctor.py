"""`tenure doctor`: is the live system what the settings, and this release, need it to be?"""

import click
import msgspec

from tenure.app.doctor.checks import examine
from tenure.app.doctor.facts import Finding, Verdict
from tenure.app.doctor.gathering import gather
from tenure.cli import printing
from tenure.cli.loading import app_as_deployed

UNWELL = 1
_COLOURS: dict[Verdict, str] = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(ctx: click.Context, strict: bool, as_json: bool) -> None:
    """Check the live system against the settings; exit code 1 when there is a problem."""
    with app_as_deployed() as (app, has_handlers):
        findings = examine(gather(app, has_handlers=has_handlers))
    problems, warnings = (sum(each.verdict == word for each in findings) for word in ("problem", "warning"))
    if as_json:
        printing.as_json({"problems": problems, "warnings": warnings, "checks": msgspec.to_builtins(findings)})
    else:
        _show(findings)
        click.echo(f"problems: {problems}, warnings: {warnings}")
    if problems or (strict and warnings):
        ctx.exit(UNWELL)


def _show(findings: list[Finding]) -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        if each.verdict == "not applicable":
            continue
        word = click.style(each.verdict.ljust(len("warning")), fg=_COLOURS[each.verdict])
        click.echo(f"{word}  {each.check.ljust(width)}  {printing.text(each.text)}")
        if each.advice:
            click.echo(f"{' ' * (len('warning') + width + 4)}{printing.text(each.advice)}")
    left_out = [each.check for each in findings if each.verdict == "not applicable"]
    if left_out:
        click.echo(f"not applicable here: {', '.join(left_out)}")
