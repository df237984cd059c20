"""The page that asks for the new start of jobs, before the one that asks for confirmation."""

import re
from typing import ClassVar

from msgspec import Struct

from tenure.app.dashboard.access import Access
from tenure.app.dashboard.core import Sources
from tenure.app.dashboard.filters import from_canonical
from tenure.app.dashboard.job_selection import Selection

_INSIDE = re.compile(r"/(?![/\\])[!-\[\]-~]*")  # a path of this host: it becomes the target of a link


class ReschedulePage(Struct, frozen=True, kw_only=True):
    """The fields of the selection, the filter as people write it, and the zone of times without an offset."""

    ids: tuple[str, ...]
    all: bool
    filter: str
    before: int
    back: str
    text: str
    timezone: str


class RescheduleQuery(Struct, frozen=True, kw_only=True):
    """The jobs as `jobs.reschedule` takes them; `back` is the page from which the user came."""

    page: ClassVar[str] = "reschedule"
    ids: tuple[str, ...] = ()
    all: bool = False
    filter: str = ""
    before: int = 0
    back: str = ""

    def read(self, sources: Sources, access: Access) -> ReschedulePage:
        access.check_action("jobs.reschedule")
        Selection(ids=self.ids, all=self.all, filter=self.filter, before=self.before).check()
        return ReschedulePage(
            ids=() if self.all else self.ids,
            all=self.all,
            filter=self.filter if self.all else "",
            before=self.before if self.all else 0,
            back=self.back if _INSIDE.fullmatch(self.back) else "",
            text=str(from_canonical(self.filter)) if self.all else "",
            timezone=sources.app.settings.timezone,
        )
