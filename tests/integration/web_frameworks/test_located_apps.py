"""Where child processes of `flask tenure` and `quart tenure` find the Tenure app."""

import importlib
import sys
from secrets import token_hex

import pytest

from tenure import Tenure
from tenure.cli.app_loader import import_app
from tenure.errors import SettingsError

FACTORY = """
import {framework}

from tenure import Tenure
from tenure.integrations.{framework} import {extension}

jobs = Tenure("memory://")
tenure = {extension}(jobs)


def create_app():
    web = {framework}.{name}("shop")
    tenure.init_app(web)
    return web
"""


@pytest.mark.parametrize("framework", ["flask", "quart"])
def test_the_environment_names_the_application_of_a_child_process(framework, tmp_path, monkeypatch):
    module, name = f"shop_{token_hex(4)}", framework.capitalize()
    (tmp_path / f"{module}.py").write_text(FACTORY.format(framework=framework, name=name, extension=f"{name}Tenure"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(f"{framework.upper()}_APP", f"{module}:create_app")

    found = import_app(f"tenure.integrations.{framework}.located:tenure")

    assert isinstance(found, Tenure)
    assert found is importlib.import_module(module).jobs
    with pytest.raises(SettingsError, match="has no Tenure app 'reports': call init_app"):
        import_app(f"tenure.integrations.{framework}.located:reports")
