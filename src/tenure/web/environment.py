"""The environment of the templates: every text is escaped, and a name that is not defined is an error."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tenure.web import charts, text
from tenure.web.tracebacks import traceback_lines

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"
_FILTERS = (
    *(text.number, text.short_number, text.percent, text.rate, text.bytes_text),
    *(text.duration, text.short_duration, text.ago, text.clock, text.exact, text.iso),
    *(text.short_id, text.cut, text.visible, text.json_lines, traceback_lines),
)


def template_environment() -> Environment:
    """The templates of the dashboard with their filters; `charts` is a name in all of them."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update({each.__name__: each for each in _FILTERS})
    environment.globals["charts"] = charts
    return environment
