"""Where commands and child processes find the Tenure app of a Quart application: `located:KEY`.

The attribute is looked up when it is asked for. Unless `quart tenure` has loaded the application, QUART_APP names it.
"""

from quart.cli import ScriptInfo

from tenure.app.tenure import Tenure
from tenure.integrations.pallets.commands import find_app


def __getattr__(key: str) -> Tenure:
    if key.startswith("__"):
        raise AttributeError(key)
    return find_app(key, "quart", ScriptInfo)
