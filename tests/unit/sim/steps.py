"""Carries out the steps of a plan. What is hit, where a step does not say, is drawn from the step's own salt."""

from collections.abc import Callable
from random import Random
from typing import Final

from fencepost.api.codec import decode_entry
from fencepost.api.names import DAG_RUNS, LEASES, WORKERS
from fencepost.core.plan_workers import token_of
from fencepost.kube.errors import ConnectionLostError
from fencepost.kube.protocol import Obj
from tests.unit.sim.cluster import SYSTEM
from tests.unit.sim.history import Written
from tests.unit.sim.network import Link
from tests.unit.sim.people import People
from tests.unit.sim.plan import ANSWERS, PEOPLE, Step
from tests.unit.sim.scene import RESTART_S, SYNCED_S, Scene
from tests.unit.sim.troubles import Trap, Trouble
from tests.unit.sim.virtual import Machine

CLOCK_STEPS_S_MAX: Final = (25.0, 120.0)
NEWS_LATE_S: Final = (30.0, 100.0)


class Steps:
    """The hands that do it."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._undo: dict[int, Callable[[], object]] = {}
        """By step, of what lasts."""
        self._people = People(scene, self._for_a_while)
        self._late_liars = 0
        """Who waits for a worker to be shut out, to answer in its name for all that it had."""
        scene.history.listeners.append(self._written)
        for step in scene.plan.steps:
            scene.loop.at(step.at_s, self._carry_out, step)

    def calm(self) -> None:
        """Nothing goes wrong any more: whatever lasts is over, every seat is taken, and clocks are looked after."""
        for number in list(self._undo):
            self._end(number)
        scene = self._scene
        for machine in scene.machines:
            machine.synced = True
            machine.set_wall(min(machine.wall_error_s, SYNCED_S))
        scene.troubles.traps.clear()
        scene.troubles.gone.clear()
        for seat in (*scene.plan.replicas, *scene.plan.workers):
            scene.revive(seat.name)

    def _carry_out(self, step: Step) -> None:
        scene = self._scene
        if step.kind in ANSWERS:
            self._spoil_answers(step)
        else:
            hands = self._people if step.kind in PEOPLE else self
            act: Callable[[Step, Random], None] = getattr(hands, f"_{step.kind}")
            scene.note(scene.loop.now_s, "FAULT", str(step))
            act(step, Random(step.salt))
        scene.coverage[f"step {step.kind}"] += 1

    def _for_a_while(self, step: Step, undo: Callable[[], object]) -> None:
        self._undo[step.number] = undo
        self._scene.loop.after(step.for_s, self._end, step.number)

    def _end(self, number: int) -> None:
        undo = self._undo.pop(number, None)
        if undo is not None:
            self._scene.note(self._scene.loop.now_s, "FAULT", f"step {number} is over")
            undo()

    def _spoil_answers(self, step: Step) -> None:
        scene = self._scene

        def hit(machine: Machine) -> bool:
            return step.target == "all" or machine is scene.process(step.target).machine

        trouble = Trouble(step, hit, Random(step.salt))
        scene.troubles.active.append(trouble)
        scene.note(scene.loop.now_s, "FAULT", str(step))
        self._for_a_while(step, lambda: scene.troubles.active.remove(trouble))

    # Machines.

    def _kill(self, step: Step, rng: Random) -> None:
        self._scene.kill(step.target, min(step.for_s, 60.0))

    def _stop(self, step: Step, rng: Random) -> None:
        scene, process = self._scene, self._scene.process(step.target)
        if process.alive and not process.machine.frozen:
            process.stop()
            scene.loop.after(5.0 + min(step.for_s, 60.0), scene.revive, step.target)

    def _pause(self, step: Step, rng: Random) -> None:
        machine = self._scene.process(step.target).machine
        machine.freeze()
        self._for_a_while(step, machine.thaw)

    def _vm_pause(self, step: Step, rng: Random) -> None:
        machine = self._scene.process(step.target).machine
        machine.freeze()
        self._for_a_while(step, lambda: machine.thaw(clock_went_on=False))

    def _crash_before(self, step: Step, rng: Random) -> None:
        self._trap(step, rng, before=True)

    def _crash_after(self, step: Step, rng: Random) -> None:
        self._trap(step, rng, before=False)

    def _trap(self, step: Step, rng: Random, *, before: bool) -> None:
        scene, process = self._scene, self._scene.process(step.target)

        def sprung() -> None:
            if process.alive:
                scene.note(scene.loop.now_s, process.machine.name, "dies at this write")
                process.kill()
                scene.loop.after(min(step.for_s, 60.0), scene.revive, step.target)

        scene.troubles.traps.append(Trap(process.machine, before, rng.randint(0, 6), sprung))

    def _takeover(self, step: Step, rng: Random) -> None:
        """A replica hears of runs much later than of all else, and in the middle of that the others end: it is to lead
        by what it has not heard."""
        scene, machine = self._scene, self._scene.process(step.target).machine
        link = scene.network.links[machine]
        link.lags_s[DAG_RUNS] = rng.uniform(*NEWS_LATE_S)
        by_signal, alone_after_s = rng.random() < 0.5, rng.uniform(1.0, 60.0)

        def leave_it_alone() -> None:
            for seat, other in scene.replicas.items():
                if seat == step.target or not other.alive:
                    continue
                if by_signal and not other.machine.frozen:
                    other.stop()
                    scene.loop.after(RESTART_S + step.for_s, scene.revive, seat)
                else:
                    scene.kill(seat, RESTART_S + step.for_s)

        def news_in_time() -> None:
            link.lags_s.clear()
            scene.network.cut_watches(machine, None)  # else what is on its way comes late even now

        scene.loop.after(alone_after_s, leave_it_alone)
        scene.loop.after(alone_after_s + NEWS_LATE_S[1], self._end, step.number)
        self._undo[step.number] = news_in_time

    def _clock_step(self, step: Step, rng: Random) -> None:
        machine = self._scene.process(step.target).machine
        machine.set_wall(rng.choice((-1, 1)) * rng.uniform(0.5, rng.choice(CLOCK_STEPS_S_MAX)))
        self._for_a_while(step, lambda: machine.set_wall(0.0) if machine.synced else None)

    # Links.

    def _link(self, step: Step, change: Callable[[Link], None], back: Callable[[Link], None]) -> None:
        link = self._scene.network.links[self._scene.process(step.target).machine]
        change(link)
        self._for_a_while(step, lambda: back(link))

    def _cut(self, step: Step, rng: Random) -> None:
        def change(link: Link) -> None:
            link.cut, link.cut_at_s = True, self._scene.loop.now_s

        self._link(step, change, lambda link: setattr(link, "cut", False))

    def _refuse(self, step: Step, rng: Random) -> None:
        machine = self._scene.process(step.target).machine
        self._link(step, lambda link: setattr(link, "refused", True), lambda link: setattr(link, "refused", False))
        self._scene.network.cut_watches(machine, ConnectionLostError("watch: reset by peer"))

    def _deaf(self, step: Step, rng: Random) -> None:
        self._link(step, lambda link: setattr(link, "deaf", True), lambda link: setattr(link, "deaf", False))

    def _lag(self, step: Step, rng: Random) -> None:
        lag_s = rng.choice((0.3, 2.0, 8.0))
        self._link(
            step, lambda link: setattr(link, "event_lag_s", lag_s), lambda link: setattr(link, "event_lag_s", 0.0)
        )

    def _no_bookmarks(self, step: Step, rng: Random) -> None:
        self._link(step, lambda link: setattr(link, "bookmarks", False), lambda link: setattr(link, "bookmarks", True))

    def _watch_cut(self, step: Step, rng: Random) -> None:
        error = ConnectionLostError("watch: reset by peer")
        self._scene.network.cut_watches(self._scene.process(step.target).machine, error)

    def _watch_end(self, step: Step, rng: Random) -> None:
        self._scene.network.cut_watches(self._scene.process(step.target).machine, None)

    def _gone(self, step: Step, rng: Random) -> None:
        machine = self._scene.process(step.target).machine
        self._scene.troubles.gone.add(machine)
        self._scene.network.cut_watches(machine, None)

    def _outage(self, step: Step, rng: Random) -> None:
        """The API server is away: all connections break, and nobody gets a new one."""
        scene = self._scene
        machines = scene.machines
        for machine in machines:
            scene.network.links[machine].refused = True
            scene.network.cut_watches(machine, ConnectionLostError("watch: reset by peer"))

        def back() -> None:
            for machine in machines:
                scene.network.links[machine].refused = False

        self._for_a_while(step, back)

    # Workers.

    def _some_worker(self, rng: Random) -> str | None:
        names = list(self._scene.history.objects[WORKERS])
        return rng.choice(names) if names else None

    def _delete_worker(self, step: Step, rng: Random) -> None:
        name = self._some_worker(rng)
        if name is not None:
            self._scene.delete(WORKERS, name, SYSTEM)

    def _delete_worker_lease(self, step: Step, rng: Random) -> None:
        name = self._some_worker(rng)
        if name is not None:
            self._scene.delete(LEASES, name, SYSTEM)

    def _drain_worker(self, step: Step, rng: Random) -> None:
        """SIGTERM, as in a rollout."""
        worker = self._scene.workers[rng.choice(list(self._scene.workers))]
        if worker.alive and not worker.machine.frozen:
            worker.stop()

    def _lie(self, step: Step, rng: Random) -> None:
        """Somebody who has a worker's rights answers, with success, for whatever he has ever been given there; and
        once more, under the right tokens, as soon as a worker has been shut out."""
        scene = self._scene
        self._late_liars += 1
        name = self._some_worker(rng)
        if name is None:
            return
        stored = scene.history.objects[WORKERS][name]
        keys = {job.execution: job for job in scene.book if job.worker == name}
        worker: Obj = stored.obj
        results = dict(stored.results)
        for key, text in stored.entries.items():
            token = token_of(text)
            if key not in results and token > 1 and decode_entry(text).run_uid:
                results[key] = f"{token - 1} Succeeded 0 - -"
        for run in scene.history.objects[DAG_RUNS].values():
            for execution, job in keys.items():
                uid, task, index = execution.split("/")
                key = f"demo/{run.name}.{uid[:8]}/{task}/{index}"
                if uid == run.uid and key not in stored.entries:
                    results[key] = f"{job.token} Succeeded 0 - -"
        scene.lie(name, worker, results)

    def _written(self, written: Written) -> None:
        after, before = written.after, written.before
        fenced = written.kind is WORKERS and after is not None and after.fenced and not (before and before.fenced)
        if fenced and self._late_liars:
            self._late_liars -= 1
            self._scene.loop.after(0.0, self._late_word, written.name)

    def _late_word(self, worker: str) -> None:
        stored = self._scene.history.objects[WORKERS].get(worker)
        if stored is not None:
            late = {key: f"{token_of(text)} Succeeded 0 - -" for key, text in stored.entries.items()}
            self._scene.lie(worker, stored.obj, late | dict(stored.results))
