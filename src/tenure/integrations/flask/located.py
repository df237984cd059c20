"""Where commands and child processes find the Tenure app of a Flask application: `located:KEY`.

The attribute is looked up when it is asked for. Unless `flask tenure` has loaded the application, FLASK_APP names it.
"""

from flask.cli import ScriptInfo

from tenure.app.tenure import Tenure
from tenure.integrations.pallets.commands import find_app


def __getattr__(key: str) -> Tenure:
    if key.startswith("__"):
        raise AttributeError(key)
    return find_app(key, "flask", ScriptInfo)
