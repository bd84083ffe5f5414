"""What was written and what it cost, between two readings."""

import asyncio
import os
import re
import ssl
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fencepost.base.clock import Clock
from tests.e2e.controlplane import ControlPlane

WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE"})
OURS = frozenset({"dags", "dagruns", "workers", "workerpools", "controllerrevisions", "events"})
LEASES = "leases"
CALM_SHARE = 0.2
"""Of a core; reading its metrics is in it."""
CALM_PERIOD_S = 2.0
CALM_LIMIT_S = 120.0
_SAMPLE = re.compile(r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<value>[0-9.e+]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Reading:
    """Everything counted so far."""

    writes: Counter[str]
    """By `VERB resource`, of our kinds and of Leases."""
    cpu_ms: dict[str, float]

    def since(self, before: "Reading") -> "Reading":
        """What has come since an earlier reading."""
        return Reading(
            self.writes - before.writes, {name: ms - before.cpu_ms[name] for name, ms in self.cpu_ms.items()}
        )

    def of_ours(self) -> dict[str, int]:
        """Writes of our kinds, without Leases."""
        return {key: count for key, count in sorted(self.writes.items()) if key.split(" ")[1].split("/")[0] != LEASES}

    def of_leases(self) -> int:
        """Writes of Leases: renewals and handovers."""
        return sum(self.writes.values()) - sum(self.of_ours().values())


class Meter:
    """Reads one control plane and the processes on it."""

    def __init__(self, plane: ControlPlane, processes: dict[str, list[int]]) -> None:
        """`processes`: pids by component, besides those of the control plane."""
        self._plane = plane
        self._processes = processes
        certificate, key = plane.admin_certificate
        self._tls = ssl.create_default_context(cafile=str(plane.ca_path))
        self._tls.load_cert_chain(certificate, key)

    def read(self) -> Reading:
        """Now."""
        pids = self._processes | {
            str(name).replace("kube-", "").replace("-", "_"): [pid] for name, pid in self._plane.pids.items()
        }
        return Reading(self._writes(), {name: sum(map(cpu_ms, members)) for name, members in pids.items()})

    def _writes(self) -> Counter[str]:
        with urllib.request.urlopen(f"{self._plane.server}/metrics", context=self._tls, timeout=30) as answer:
            text = answer.read().decode()
        counts: Counter[str] = Counter()
        for line in text.splitlines():
            match = _SAMPLE.match(line)
            if match is None:
                continue
            labels = dict(_LABEL.findall(match["labels"]))
            resource, verb = labels.get("resource", ""), labels.get("verb", "")
            if verb in WRITES and labels.get("dry_run", "") == "" and (resource in OURS or resource == LEASES):
                name = f"{resource}/{labels['subresource']}" if labels.get("subresource") else resource
                counts[f"{verb} {name}"] += int(float(match["value"]))
        return counts


async def calm(meter: Meter, clock: Clock) -> None:
    """Wait until the API server has digested what is new to it, which takes it seconds and is not what is measured."""
    async with asyncio.timeout(CALM_LIMIT_S):
        share = 1.0
        while share > CALM_SHARE:
            before = meter.read()
            await clock.sleep(CALM_PERIOD_S)
            share = meter.read().since(before).cpu_ms["apiserver"] / 1000 / CALM_PERIOD_S


def cpu_ms(pid: int) -> float:
    """What a process has used so far, with children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = int(fields[11]) + int(fields[12])
    children = int(fields[13]) + int(fields[14])
    return (own + children) * 1000 / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"no process {pid}")
