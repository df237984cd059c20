"""`tenure doctor`: compare the live system with the settings and with what this release needs."""

import click
import msgspec

from tenure.app.doctor.checks import examine
from tenure.app.doctor.collect import collect_facts
from tenure.app.doctor.facts import Finding, Severity
from tenure.cli import output
from tenure.cli.app_loader import app_as_deployed

EXIT_PROBLEM = 1
_COLOURS: dict[Severity, str] = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@click.option("--strict", is_flag=True, help="Let warnings fail too.")
@output.json_option
@click.pass_context
def doctor(ctx: click.Context, strict: bool, as_json: bool) -> None:
    """Check the live system against the settings; exit code 1 if there is a problem."""
    with app_as_deployed() as (app, has_handlers):
        findings = examine(collect_facts(app, has_handlers=has_handlers))
    problems, warnings = (sum(each.verdict == word for each in findings) for word in ("problem", "warning"))
    if as_json:
        output.print_json({"problems": problems, "warnings": warnings, "checks": msgspec.to_builtins(findings)})
    else:
        _print_findings(findings)
        click.echo(f"problems: {problems}, warnings: {warnings}")
    if problems or (strict and warnings):
        ctx.exit(EXIT_PROBLEM)


def _print_findings(findings: list[Finding]) -> None:
    width = max(len(each.check) for each in findings)
    for each in findings:
        if each.verdict == "not applicable":
            continue
        word = click.style(each.verdict.ljust(len("warning")), fg=_COLOURS[each.verdict])
        click.echo(f"{word}  {each.check.ljust(width)}  {output.format_value(each.text)}")
        if each.advice:
            click.echo(f"{' ' * (len('warning') + width + 4)}{output.format_value(each.advice)}")
    not_applicable = [each.check for each in findings if each.verdict == "not applicable"]
    if not_applicable:
        click.echo(f"not applicable here: {', '.join(not_applicable)}")
