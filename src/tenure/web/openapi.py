"""The OpenAPI description of the JSON API, made from the types of queries, models and commands."""

from typing import Any, get_type_hints

import msgspec

from tenure import __version__
from tenure.app.dashboard.access import ACTIONS
from tenure.app.dashboard.action_record import ActionRecord
from tenure.app.dashboard.catalogue import BY_ACTION
from tenure.app.dashboard.core import Preview
from tenure.web.pages import PAGES, Page

_REF = "#/components/schemas/{name}"
_ERRORS = {"400": "Bad parameters", "401": "No token, or a wrong one", "403": "Not allowed", "404": "Not found",
           "409": "Cannot be done now", "503": "The backend does not answer"}  # fmt: skip


def describe_api(root: str = "") -> dict[str, Any]:
    """The document; `root` is the prefix under which the dashboard is mounted."""
    models = {page.key: model_of(page.query) for page in PAGES}
    types = [*models.values(), *BY_ACTION.values(), ActionRecord, Preview]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for page in PAGES:
        path = "/overview" if page.path == "/" else page.path.replace(":path}", "}")
        paths[f"/api{path}"] = {"get": _page_operation(page, by_type[id(models[page.key])])}
    for action, command in BY_ACTION.items():
        paths[f"/api/act/{action}"] = {"post": _action_operation(action, command, by_type)}
    record = by_type[id(ActionRecord)]
    paths["/api/actions/{id}"] = {
        "get": _operation("The audit record of an action, with its progress", record, [_path_parameter("id")])
    }
    paths["/api/actions/{id}/stop"] = {
        "post": _operation("Ask a running action to stop after its current step", record, [_path_parameter("id")])
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tenure", "version": __version__},
        "servers": [{"url": root or "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def model_of(query: type[Any]) -> Any:
    """The type of the model that answers a query."""
    return get_type_hints(query.read)["return"]


def _page_operation(page: Page, model: dict[str, Any]) -> dict[str, Any]:
    in_path = [part[1:-1].partition(":")[0] for part in page.path.split("/") if part.startswith("{")]
    parameters = [_path_parameter(name) for name in in_path]
    for field in msgspec.structs.fields(page.query):
        if field.encode_name not in in_path:
            (schema,), _ = msgspec.json.schema_components([field.type])
            parameters.append({"name": field.encode_name, "in": "query", "required": field.required, "schema": schema})
    return _operation(f"What the page {page.title} shows", model, parameters)


def _action_operation(action: str, command: type[Any], by_type: dict[int, dict[str, Any]]) -> dict[str, Any]:
    words = (command.__doc__ or action).split("\n")[0]
    dry_run = {"name": "dry_run", "in": "query", "required": False, "schema": {"type": "boolean"}}
    operation = _operation(f"{words} Role: {ACTIONS[action]}.", by_type[id(ActionRecord)], [dry_run])
    why = {"type": "object", "properties": {"why": {"type": "string"}}}
    body = {"allOf": [by_type[id(command)], why]}
    return {**operation, "requestBody": {"required": True, "content": {"application/json": {"schema": body}}}}


def _operation(summary: str, model: dict[str, Any], parameters: list[dict[str, Any]]) -> dict[str, Any]:
    answer = {"description": summary, "content": {"application/json": {"schema": model}}}
    errors = {status: {"description": text} for status, text in _ERRORS.items()}
    return {"summary": summary, "parameters": parameters, "responses": {"200": answer, **errors}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
