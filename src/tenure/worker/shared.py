"""Shared: what the lanes of one worker have in common."""

from dataclasses import dataclass

from tenure.backends.contract import Backend
from tenure.events import Listeners
from tenure.worker.bounds import Bounds
from tenure.worker.holdings import Holdings
from tenure.worker.outage import Outage
from tenure.worker.pipeline import Pipeline
from tenure.worker.settler import Settler
from tenure.worker.terms import Terms


@dataclass(frozen=True, slots=True)
class Shared:
    backend: Backend
    terms: Terms
    pipeline: Pipeline
    holdings: Holdings
    settler: Settler
    bounds: Bounds
    listeners: Listeners
    outage: Outage
