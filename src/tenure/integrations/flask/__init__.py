"""Tenure in a Flask application: `FlaskTenure`, `jobs_blueprint`, `mount_dashboard`."""

from tenure.integrations.extras import missing_extra

try:
    from tenure.integrations.flask.blueprint import jobs_blueprint
    from tenure.integrations.flask.dashboard import mount_dashboard
    from tenure.integrations.flask.extension import FlaskTenure
except ModuleNotFoundError as error:
    raise missing_extra("flask", error) from error

__all__ = ["FlaskTenure", "jobs_blueprint", "mount_dashboard"]
