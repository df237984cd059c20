"""The comparison: rounds of rows of peers, those of one server next to each other, so that they share its weather."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version as installed
from pathlib import Path

from benchmarks.peers.catalogue import Peer
from benchmarks.peers.environments import ROOT, Unavailable, interpreter, version
from benchmarks.peers.results import Cell, Numbers, Report, Subject
from benchmarks.peers.rows import Budget, Row
from benchmarks.peers.servers import ON_DISK, Servers
from benchmarks.peers.stand import Failed, stand

Tell = Callable[[str], None]


@dataclass
class Comparison:
    """Collects what rounds find; `report` can be asked at any time, so that a run that is stopped has results too."""

    peers: Sequence[Peer]
    rows: Sequence[Row]
    budget: Budget
    logs: Path
    tell: Tell = lambda text: print(text, file=sys.stderr, flush=True)
    _found: dict[tuple[str, str], list[Numbers]] = field(default_factory=dict)
    _reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    _absent: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Install what is missing; whoever cannot be installed is left out."""
        for peer in self.peers:
            try:
                interpreter(peer.environment)
            except Unavailable as reason:
                self._leave_out(peer, str(reason))

    def run(self, servers: Servers, rounds: int | None = None) -> None:
        """So many rounds, or as many as each row has."""
        for number in range(rounds or max((row.rounds for row in self.rows), default=0)):
            for row in self.rows:
                if row.is_measured_in(number, rounds):
                    for peer in self.in_turn(number):
                        self._measure(row, peer, servers, number)

    def in_turn(self, number: int) -> list[Peer]:
        """By server; within one each round starts with another peer."""
        groups: dict[str, list[Peer]] = {}
        for peer in self.peers:
            groups.setdefault(peer.server, []).append(peer)
        turned = [group[number % len(group) :] + group[: number % len(group)] for group in groups.values()]
        return [peer for group in turned for peer in group]

    def _measure(self, row: Row, peer: Peer, servers: Servers, number: int) -> None:
        key = peer.name, row.name
        if peer.name in self._absent or key in self._reasons:
            return None
        try:
            with stand(peer, servers, row.slots or 2 * self.budget.jobs, self.logs) as place:
                numbers = row.measure(place, self.budget)
        except Unavailable as reason:
            return self._leave_out(peer, str(reason))
        except Failed as reason:
            self._reasons[key] = str(reason)
            return self.tell(f"{row.name:<16}{peer.name:<28}{reason}")
        if numbers is None:
            self._reasons[key] = "not offered, or not measured"
            return None
        self._found.setdefault(key, []).append(numbers)
        told = "   ".join(f"{name} {value:,.5g}" for name, value in numbers.items())
        return self.tell(f"{number + 1}  {row.name:<16}{peer.name:<28}{told}")

    def _leave_out(self, peer: Peer, reason: str) -> None:
        self._absent[peer.name] = reason
        self.tell(f"{peer.name} is left out: {reason}")

    def report(self) -> Report:
        taking_part = [peer for peer in self.peers if peer.name not in self._absent]
        cells = [Cell.of(*key, rounds) for key, rounds in self._found.items()]
        cells += [Cell(*key, reason=reason) for key, reason in self._reasons.items() if key not in self._found]
        used = sorted({peer.server for peer in taking_part})
        return Report(
            machine=machine(),
            servers={name: ON_DISK[name] for name in used},
            subjects=[_subject(peer) for peer in taking_part],
            cells=cells,
            absent=dict(self._absent),
        )


def _subject(peer: Peer) -> Subject:
    return Subject(
        name=peer.name,
        title=peer.title,
        server=peer.server,
        version=f"tenure=={installed('tenure')}{_commit()}" if peer.is_ours else _version(peer),
        promise=peer.promise,
        durable=peer.durable or ON_DISK[peer.server],
        settings=peer.settings,
        is_ours=peer.is_ours,
    )


def _version(peer: Peer) -> str:
    """The pin of the peer's own package; a Node environment holds several."""
    return version(peer.environment, peer.adapter if peer.is_node else None)


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f" at {done.stdout.strip()}" if done.returncode == 0 else ""


def machine() -> dict[str, str]:
    """Where and when; enough to judge the numbers by."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{int((_first('/proc/meminfo', 'MemTotal') or '0').split()[0]) // 1024**2} GB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _first(path: str, name: str) -> str | None:
    lines = Path(path).read_text().splitlines() if Path(path).is_file() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), None)
