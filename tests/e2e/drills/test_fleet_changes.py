"""A fleet that changes under load: everybody restarted one by one, then more of both kinds."""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e.controlplane.processes import reap
from tests.e2e.drills.ground import LIMIT_S, REPLICAS, SLOTS, WORKERS, Ground
from tests.e2e.support.ledger import Ledger
from tests.e2e.support.objects import meta_name
from tests.e2e.support.stage import Recorder

MORE_REPLICAS = ("operator-2",)
MORE_WORKERS = ("worker-4", "worker-5")
SHARE_LIMIT_S = 60.0


class EndlessLoad:
    """Runs, of which a new batch comes whenever the last one is half done: there is work as long as it is wanted."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.ledgers: list[tuple[Ledger, list[str]]] = []
        self._ground = ground
        self._name = name

    def go_on(self) -> None:
        """Add a batch if it is time."""
        if not self.ledgers or 2 * self.ledgers[-1][0].count("commit") > 8 * 13:
            ledger = self._ground.stage.ledger(f"{self._name}-{len(self.ledgers)}")
            self.ledgers.append((ledger, self._ground.load(ledger, runs=8, width=12, seconds=0.8)))

    def reckon(self) -> None:
        """All of it went well, and each job ran once."""
        for ledger, runs in self.ledgers:
            self._ground.reckon(ledger, runs)
            self._ground.never_repeated(ledger)


def test_a_rolling_restart_of_everybody_under_load_fails_and_doubles_nothing(
    ground: Ground, record_property: Recorder
) -> None:
    stage, load = ground.stage, EndlessLoad(ground, "rolling")
    load.go_on()
    stage.wait("the load is on", lambda: load.ledgers[0][0].count("start") >= 16)
    for name in (*WORKERS, *REPLICAS):
        process = stage.fleet.members[name].process
        process.send(signal.SIGTERM)

        def ended() -> bool:
            load.go_on()
            return process.wait(0)  # noqa: B023

        stage.wait(f"{name} has ended", ended, LIMIT_S)
        assert reap(process.pid) == 0
        if name in REPLICAS:
            stage.operator(name)
            stage.wait_for_replicas(*REPLICAS)
        else:
            stage.worker(name, slots=SLOTS)
    load.reckon()
    record_property("runs_through_the_restart", sum(len(runs) for _, runs in load.ledgers))
    ground.muster()


@pytest.fixture
def dismissal(ground: Ground) -> Iterator[None]:
    """Whoever came for one story goes with it."""
    yield
    stage = ground.stage
    for name in MORE_REPLICAS:
        stage.fleet.members.pop(name).process.end(20)
    stage.dismiss(*MORE_WORKERS)
    for name in MORE_WORKERS:
        assert stage.fleet.members.pop(name).process.wait(30)
    ground.muster()


def test_who_is_added_under_load_takes_a_part_of_it_within_a_minute(
    ground: Ground, dismissal: None, record_property: Recorder
) -> None:
    stage, load, since_s = ground.stage, EndlessLoad(ground, "added"), time.monotonic()
    load.go_on()
    for name in MORE_REPLICAS:
        stage.operator(name)
    for pod in MORE_WORKERS:
        stage.worker(pod, slots=SLOTS)

    def all_have_a_part() -> bool:
        load.go_on()
        found = stage.workers_of("default")
        busy = {meta_name(worker).rpartition("-")[0] for worker in found if worker["spec"].get("leases")}
        return busy >= set(MORE_WORKERS) and set(stage.shards_led().values()) >= set(MORE_REPLICAS)

    stage.wait("whoever was added has a part of the load", all_have_a_part, SHARE_LIMIT_S)
    record_property("part_taken_s", round(time.monotonic() - since_s, 1))
    stage.wait_for_replicas(*REPLICAS, *MORE_REPLICAS)
    load.reckon()
