"""The pages: for each the query that it asks, its path, its template, and its place in the navigation."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tenure.app.dashboard.audit import AuditQuery
from tenure.app.dashboard.checks import DoctorQuery
from tenure.app.dashboard.compare import CompareQuery
from tenure.app.dashboard.core import Query
from tenure.app.dashboard.guards import GuardsQuery
from tenure.app.dashboard.health import HealthQuery
from tenure.app.dashboard.job import OneJobQuery
from tenure.app.dashboard.job_edit import EditJobQuery
from tenure.app.dashboard.jobs import JobsQuery
from tenure.app.dashboard.letters import LettersQuery
from tenure.app.dashboard.overview import OverviewQuery
from tenure.app.dashboard.queues import QueuesQuery
from tenure.app.dashboard.reschedule import RescheduleQuery
from tenure.app.dashboard.schedules import SchedulesQuery
from tenure.app.dashboard.settings_page import SettingsQuery
from tenure.app.dashboard.workers import WorkersQuery
from tenure.web.fields import from_fields


class Page(NamedTuple):
    """`key` names the page in links and keyboard shortcuts; pages without a `group` are not in the navigation.

    Pages without a `template` exist in the JSON API only. Users with equal rights share rendered pages, so a query must
    not read the name of the user. A model may have `status`, the HTTP status of the page (400 for a filter that is
    wrong), and `redirect`, a path of the dashboard that the browser opens instead.
    """

    key: str
    path: str
    query: type[Any]
    template: str
    title: str
    group: str | None = None

    @property
    def section(self) -> str:
        """The entry of the navigation to which the page belongs, by the first part of its path."""
        return self.path.split("/")[1] or self.key


PAGES: tuple[Page, ...] = (
    Page("overview", "/", OverviewQuery, "overview.html", "Overview", "Work"),
    Page("jobs", "/jobs", JobsQuery, "jobs.html", "Jobs", "Work"),
    Page("reschedule", "/jobs/reschedule", RescheduleQuery, "reschedule.html", "Reschedule"),
    Page("job-compare", "/jobs/{id:path}/compare", CompareQuery, "compare.html", "Compare"),
    Page("job-edit", "/jobs/{id:path}/edit", EditJobQuery, "edit-job.html", "Edit"),
    Page("job", "/jobs/{id:path}", OneJobQuery, "job.html", "Job"),
    Page("dead", "/dead", LettersQuery, "dead.html", "Dead letters", "Work"),
    Page("queues", "/queues", QueuesQuery, "queues.html", "Queues", "Machinery"),
    Page("schedules", "/schedules", SchedulesQuery, "schedules.html", "Schedules", "Machinery"),
    Page("workers", "/workers", WorkersQuery, "workers.html", "Workers", "Machinery"),
    Page("guards", "/guards", GuardsQuery, "guards.html", "Guards", "Machinery"),
    Page("doctor", "/doctor", DoctorQuery, "doctor.html", "Doctor", "System"),
    Page("audit", "/audit", AuditQuery, "audit.html", "Audit", "System"),
    Page("settings", "/settings", SettingsQuery, "settings.html", "Settings", "System"),
    Page("health", "/health", HealthQuery, "", "Health"),
)
GROUPS = ("Work", "Machinery", "System")


def query_of(page: Page, parameters: Iterable[tuple[str, str]], path: Mapping[str, str]) -> Query[Any]:
    """The query that the parameters of a URL mean; raises InvalidFilter for a parameter that is not known or wrong."""
    query: Query[Any] = from_fields(page.query, parameters, path, where=f"the page {page.title}")
    return query
