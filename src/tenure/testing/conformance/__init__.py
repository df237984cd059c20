"""BackendConformance: the tests that decide what a backend is.

Subclass it in a test module of your own, give it the fixtures `backend` and `clock`,
and say which capabilities the backend has and how many tests it therefore skips.
The suite names no backend; a broker's clock may make `advance` wait, since nothing here advances far.
"""

from typing import ClassVar

import pytest

from tenure.testing.conformance.capabilities import PARTS, USUAL, skip_unless_able, skipped_tests

# Asserts in installed packages are explained on failure only if pytest is told before they are imported.
pytest.register_assert_rewrite(
    *(f"{__name__}.{module}" for module in ("putting", "leasing", "settling", "keeping", "dead_letters", "records")),
    f"{__name__}.sharing",
    f"{__name__}.steering",
    f"{__name__}.parking",
    f"{__name__}.rescheduling",
    f"{__name__}.history",
    f"{__name__}.ages",
    f"{__name__}.listing",
    f"{__name__}.store",
    f"{__name__}.ledger",
    f"{__name__}.archive",
)

from tenure.testing.conformance.ages import Aging  # noqa: E402
from tenure.testing.conformance.archive import ArchiveConformance  # noqa: E402
from tenure.testing.conformance.dead_letters import DeadLettering  # noqa: E402
from tenure.testing.conformance.history import History  # noqa: E402
from tenure.testing.conformance.keeping import Keeping  # noqa: E402
from tenure.testing.conformance.leasing import Leasing  # noqa: E402
from tenure.testing.conformance.ledger import LedgerConformance  # noqa: E402
from tenure.testing.conformance.listing import Listing  # noqa: E402
from tenure.testing.conformance.messages import AdvancingClock, FullBackend  # noqa: E402
from tenure.testing.conformance.parking import Parked  # noqa: E402
from tenure.testing.conformance.putting import Putting  # noqa: E402
from tenure.testing.conformance.records import Recording  # noqa: E402
from tenure.testing.conformance.rescheduling import Rescheduling  # noqa: E402
from tenure.testing.conformance.settling import Settling  # noqa: E402
from tenure.testing.conformance.sharing import Sharing  # noqa: E402
from tenure.testing.conformance.steering import Steering  # noqa: E402
from tenure.testing.conformance.store import StoreConformance  # noqa: E402

__all__ = ["AdvancingClock", "ArchiveConformance", "BackendConformance", "LedgerConformance", "StoreConformance"]


class BackendConformance(
    Putting,
    Leasing,
    Settling,
    Keeping,
    DeadLettering,
    Recording,
    Aging,
    History,
    Listing,
    Sharing,
    Steering,
    Rescheduling,
    Parked,
):
    """Each test is one promise; a test that needs a capability the backend lacks is skipped by that name.

    Capabilities are the names of the parts of `contract.Backend` that the backend has, and `Shared`: other processes
    can open the backend at the fixture `url`.
    `lacks` names what a broker cannot do and every other backend can: `UniqueIds`, `LingeringLeases`, `Places`,
    `AddedLetters`.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    lacks: ClassVar[frozenset[str]] = frozenset()
    expected_skips: ClassVar[int]

    @pytest.fixture(autouse=True)
    def _able(self, request: pytest.FixtureRequest) -> None:
        skip_unless_able(request.function, self._abilities())

    def test_the_backend_has_the_parts_it_declares(self, backend: FullBackend) -> None:
        has = {name for name in PARTS if getattr(backend, name) is not None}
        assert has == self.capabilities & set(PARTS)

    def test_no_skip_creeps_in(self) -> None:
        assert len(skipped_tests(type(self), self._abilities())) == self.expected_skips

    def _abilities(self) -> frozenset[str]:
        return self.capabilities | (USUAL - self.lacks)
