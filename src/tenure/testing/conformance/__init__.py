"""BackendConformance: the tests that every backend must pass.

Subclass it in a test module of your own and define the fixtures `backend` and `clock`.
Set `capabilities` to what the backend has, and `expected_skips` to the number of tests that it skips for that reason.
The clock of a broker may wait in `advance`: the tests advance it by a few seconds at most.
"""

from typing import ClassVar

import pytest

from tenure.testing.conformance.capabilities import PARTS, USUAL, skip_unless_able, skipped_tests

# pytest explains a failed assert of an installed package only if the module is registered before it is imported.
_MODULES = (
    *("put", "lease", "leases_together", "settlement", "renewal", "dead_letters", "records", "payloads"),
    *(
        "history",
        "job_pages",
        "recent_jobs",
        "tags",
        "concurrency",
        "cancellation",
        "ends",
        "reschedule",
        "parking",
        "suspects",
        "store",
        "ledger",
        "archive",
        "audit",
        "outage",
    ),
)
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES))

from tenure.testing.conformance.archive import ArchiveConformance  # noqa: E402
from tenure.testing.conformance.audit import AuditTests  # noqa: E402
from tenure.testing.conformance.cancellation import CancellationTests  # noqa: E402
from tenure.testing.conformance.concurrency import ConcurrencyTests  # noqa: E402
from tenure.testing.conformance.dead_letters import DeadLetterTests  # noqa: E402
from tenure.testing.conformance.ends import EndTests  # noqa: E402
from tenure.testing.conformance.history import HistoryTests  # noqa: E402
from tenure.testing.conformance.job_pages import JobPageTests, QueueAgeTests  # noqa: E402
from tenure.testing.conformance.lease import LeaseTests  # noqa: E402
from tenure.testing.conformance.leases_together import LeasesTogetherTests  # noqa: E402
from tenure.testing.conformance.ledger import LedgerConformance  # noqa: E402
from tenure.testing.conformance.messages import AdvancingClock, FullBackend  # noqa: E402
from tenure.testing.conformance.outage import OutageConformance  # noqa: E402
from tenure.testing.conformance.parking import ParkingTests  # noqa: E402
from tenure.testing.conformance.payloads import PayloadTests  # noqa: E402
from tenure.testing.conformance.put import PutTests  # noqa: E402
from tenure.testing.conformance.recent_jobs import RecentJobsTests  # noqa: E402
from tenure.testing.conformance.records import PrefixTests, RecordTests  # noqa: E402
from tenure.testing.conformance.renewal import RenewalTests  # noqa: E402
from tenure.testing.conformance.reschedule import RescheduleTests  # noqa: E402
from tenure.testing.conformance.settlement import SettlementTests  # noqa: E402
from tenure.testing.conformance.store import StoreConformance  # noqa: E402
from tenure.testing.conformance.suspects import SuspectTests  # noqa: E402
from tenure.testing.conformance.tags import TagTests  # noqa: E402

__all__ = [
    "AdvancingClock",
    "ArchiveConformance",
    "BackendConformance",
    "LedgerConformance",
    "OutageConformance",
    "StoreConformance",
]


class BackendConformance(
    PutTests,
    LeaseTests,
    LeasesTogetherTests,
    SuspectTests,
    SettlementTests,
    RenewalTests,
    DeadLetterTests,
    RecordTests,
    PrefixTests,
    PayloadTests,
    QueueAgeTests,
    HistoryTests,
    JobPageTests,
    RecentJobsTests,
    TagTests,
    ConcurrencyTests,
    CancellationTests,
    EndTests,
    RescheduleTests,
    ParkingTests,
    AuditTests,
):
    """Each test checks one promise; a test that needs a capability which the backend lacks is skipped and names it.

    `capabilities` are the names of the parts of `contract.Backend` that the backend has, and `Shared` if other
    processes can open the backend at the fixture `url`.
    `lacks` names what a broker cannot do and every other backend can: `UniqueIds`, `LingeringLeases`, `Places`,
    `AddedLetters`.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    lacks: ClassVar[frozenset[str]] = frozenset()
    expected_skips: ClassVar[int]

    @pytest.fixture(autouse=True)
    def _skip_unless_able(self, request: pytest.FixtureRequest) -> None:
        skip_unless_able(request.function, self._abilities())

    def test_the_backend_has_the_parts_it_declares(self, backend: FullBackend) -> None:
        has = {name for name in PARTS if getattr(backend, name) is not None}
        assert has == self.capabilities & set(PARTS)

    def test_no_skip_creeps_in(self) -> None:
        assert len(skipped_tests(type(self), self._abilities())) == self.expected_skips

    def _abilities(self) -> frozenset[str]:
        return self.capabilities | (USUAL - self.lacks)
