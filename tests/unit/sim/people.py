"""What people do in the middle of it: runs by hand, edits, deletions, repairs. Any of it may be refused."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from fencepost.api.names import CONTROLLER_REVISIONS, DAG_RUNS, DAGS, DEAD_LETTERS, WORKER_POOLS
from fencepost.api.times import format_time
from fencepost.kube.protocol import Obj
from fencepost.memory.identity import ADMIN
from tests.unit.sim.conditions import ZONES
from tests.unit.sim.dags import draw_dag
from tests.unit.sim.history import Stored
from tests.unit.sim.plan import Step
from tests.unit.sim.scene import POOL, Scene
from tests.unit.sim.scripts import job_command

MANUAL_NAMES: Final = 4
"""Names that people use again and again for their runs."""
BACKFILLED_MAX: Final = 4
MINUTE_S: Final = 60


class People:
    """Their hands."""

    def __init__(self, scene: Scene, for_a_while: Callable[[Step, Callable[[], object]], None]) -> None:
        self._scene = scene
        self._for_a_while = for_a_while

    def _runs(self, dag: str) -> list[Stored]:
        return [run for run in self._scene.history.objects[DAG_RUNS].values() if run.spec.get("dag") == dag]

    def _some_run(self, step: Step, rng: Random) -> Stored | None:
        """One of the DAG's, rather one under way."""
        runs = self._runs(step.target)
        active = [run for run in runs if not run.run.phase.finished]
        choice = active if active and rng.random() < 0.7 else runs
        return rng.choice(choice) if choice else None

    def _manual_run(self, step: Step, rng: Random) -> None:
        spec: dict[str, Any] = {"dag": step.target}
        if rng.random() < 0.3:
            spec["params"] = {"zone": rng.choice(ZONES)}
        if rng.random() < 0.15:
            spec["suspend"] = True
            self._scene.coverage["run born suspended"] += 1
            self._for_a_while(step, lambda: self._set_suspend(f"m{step.number}", False))
        if rng.random() < 0.1:
            spec["overrides"] = {"t0": {"phase": rng.choice(("Succeeded", "Failed")), "by": ADMIN.user}}
        self._scene.put(DAG_RUNS, f"m{step.number}", spec)

    def _manual_again(self, step: Step, rng: Random) -> None:
        """A run under a name that has been used before, the run before it deleted a moment ago."""
        name = f"again{rng.randrange(MANUAL_NAMES)}"
        self._scene.delete(DAG_RUNS, name)
        self._scene.put(DAG_RUNS, name, {"dag": step.target})
        for later_s in (rng.uniform(0.01, 0.2), rng.uniform(0.2, 3.0)):
            self._scene.loop.after(later_s, self._once_more, name, step.target)

    def _once_more(self, name: str, dag: str) -> None:
        self._scene.delete(DAG_RUNS, name)
        self._scene.put(DAG_RUNS, name, {"dag": dag})

    def _cancel_run(self, step: Step, rng: Random) -> None:
        run = self._some_run(step, rng)
        if run is not None:
            self._scene.edit(DAG_RUNS, run.name, lambda obj: obj["spec"].update(cancel=True))

    def _delete_run(self, step: Step, rng: Random) -> None:
        run = self._some_run(step, rng)
        if run is not None:
            self._scene.delete(DAG_RUNS, run.name)

    def _edit_dag(self, step: Step, rng: Random) -> None:
        def change(dag: Obj) -> None:
            for task in dag["spec"]["tasks"]:
                task["command"][1:3] = job_command(round(rng.uniform(0.1, 8.0), 2), rng.choice((0.0, 0.2)))[1:3]
            if rng.random() < 0.5:
                dag["spec"]["tasks"].append({"name": f"more{step.number}", "command": job_command(1.0, 0.0)})

        self._scene.edit(DAGS, step.target, change)

    def _suspend_dag(self, step: Step, rng: Random) -> None:
        scene = self._scene

        def suspend(suspended: bool) -> None:
            scene.edit(DAGS, step.target, lambda dag: dag["spec"].update(suspend=suspended))

        suspend(True)
        self._for_a_while(step, lambda: suspend(False))

    def _delete_dag(self, step: Step, rng: Random) -> None:
        """And make it again: the same name, another UID, another definition."""
        scene = self._scene
        for run in self._runs(step.target):
            scene.deleted_by_people.add(run.uid)
        scene.delete(DAGS, step.target)
        spec: dict[str, Any] = dict(draw_dag(rng, 10.0, scene.plan.length_s, scene.plan.calendar, scheduled=True))
        scene.loop.after(rng.choice((0.0, 0.05, 1.0, 20.0)), scene.put, DAGS, step.target, spec)

    def _touch_run(self, step: Step, rng: Random) -> None:
        """A label of somebody's, which moves the version of the run and nothing else."""
        run = self._some_run(step, rng)
        if run is not None:
            labels = {"touched": str(step.number)}
            self._scene.edit(DAG_RUNS, run.name, lambda obj: obj["metadata"].setdefault("labels", {}).update(labels))

    # Repairs.

    def _suspend_run(self, step: Step, rng: Random) -> None:
        run = self._some_run(step, rng)
        if run is not None:
            self._set_suspend(run.name, True)
            self._for_a_while(step, lambda: self._set_suspend(run.name, False))

    def _set_suspend(self, run: str, suspend: bool) -> None:
        self._scene.edit(DAG_RUNS, run, lambda obj: obj["spec"].update(suspend=suspend))

    def _finished_run(self, step: Step, rng: Random) -> Stored | None:
        runs = [run for run in self._runs(step.target) if run.run.phase.finished]
        return rng.choice(runs) if runs else None

    def _rerun(self, step: Step, rng: Random) -> None:
        run = self._finished_run(step, rng)
        if run is None:
            return
        number = run.spec.get("round", 0) + 1
        what: dict[str, Any] = {"round": number, "from": rng.choice(("Failed", "Failed", "All", "Jobs"))}
        tasks = self._tasks_of(run)
        if what["from"] == "Jobs" and tasks:
            what["jobs"] = {name: rng.choice(("*", "0", "0-1,3")) for name in tasks if rng.random() < 0.5}
        if rng.random() < 0.4:
            what["downstream"] = True
        change = {"round": number, "rerun": what, "cancel": False}
        self._scene.edit(DAG_RUNS, run.name, lambda obj: obj["spec"].update(change))

    def _mark_job(self, step: Step, rng: Random) -> None:
        """As `fencepost mark`: in a finished run together with a round of it."""
        run = self._some_run(step, rng)
        tasks = self._tasks_of(run) if run is not None else []
        if run is None or not tasks:
            return
        number, change = run.spec.get("round", 0), {}
        if run.run.phase.finished:
            number += 1
            change = {"round": number, "rerun": {"round": number, "from": "Jobs"}, "cancel": False}
        busy = [str(job) for job in (*run.run.leases, *run.run.waiting)]
        key = rng.choice([*tasks, *(f"{name}/0" for name in tasks), *busy])
        mark = {"phase": rng.choice(("Succeeded", "Failed")), "by": ADMIN.user, "round": number}
        marks = {**(run.spec.get("overrides") or {}), key: mark}
        self._scene.edit(DAG_RUNS, run.name, lambda obj: obj["spec"].update(overrides=marks, **change))

    def _tasks_of(self, run: Stored) -> list[str]:
        revision = self._scene.history.objects[CONTROLLER_REVISIONS].get(run.spec.get("revision", ""))
        return [task["name"] for task in revision.obj["data"]["tasks"]] if revision is not None else []

    def _letters(self, dag: str) -> list[Stored]:
        letters = self._scene.history.objects[DEAD_LETTERS].values()
        return [letter for letter in letters if letter.spec["job"]["dag"] == dag]

    def _replay(self, step: Step, rng: Random) -> None:
        if letters := self._letters(step.target):
            self._ask_for_replay(rng.choice(letters).name)

    def _replay_many(self, step: Step, rng: Random) -> None:
        for letter in self._letters(step.target):
            self._ask_for_replay(letter.name)

    def _ask_for_replay(self, letter: str) -> None:
        self._scene.edit(DEAD_LETTERS, letter, lambda obj: obj["spec"].update(replay=obj["spec"].get("replay", 0) + 1))

    def _delete_letter(self, step: Step, rng: Random) -> None:
        if letters := self._letters(step.target):
            self._scene.delete(DEAD_LETTERS, rng.choice(letters).name)

    def _backfill(self, step: Step, rng: Random) -> None:
        """Runs for times before all this began; and sometimes the run of the next minute."""
        now_s = self._scene.loop.begins_s + int(self._scene.loop.now_s)
        slots = [
            self._scene.loop.begins_s - MINUTE_S * rng.randint(1, 30) for _ in range(rng.randint(1, BACKFILLED_MAX))
        ]
        if rng.random() < 0.3:
            slots.append((now_s // MINUTE_S + 1) * MINUTE_S)
        for slot_s in sorted(set(slots)):
            spec = {"dag": step.target, "trigger": "Backfill", "scheduledTime": format_time(slot_s)}
            self._scene.put(DAG_RUNS, f"{step.target}-{slot_s}", spec)

    # What runs and DAGs rest on.

    def _delete_revision(self, step: Step, rng: Random) -> None:
        revisions = self._scene.history.objects[CONTROLLER_REVISIONS].values()
        names = [revision.name for revision in revisions if revision.name[:-11] == step.target]
        if names:
            self._scene.delete(CONTROLLER_REVISIONS, rng.choice(names))

    def _orphan_dag(self, step: Step, rng: Random) -> None:
        """Delete the DAG and leave its runs; and sometimes make it again."""
        scene = self._scene
        spec = self._scene.history.objects[DAGS].get(step.target)
        scene.delete(DAGS, step.target, propagation="Orphan")
        if spec is not None:
            scene.loop.after(rng.choice((0.0, 1.0, 20.0)), scene.put, DAGS, step.target, dict(spec.spec))

    def _edit_pool(self, step: Step, rng: Random) -> None:
        """Another share for each DAG, or for critical jobs; or the namespace is shut out for a while."""
        scene = self._scene
        if rng.random() < 0.3:
            reserve = {"critical": f"{rng.choice((10, 40, 100))}%"}
            scene.edit(WORKER_POOLS, POOL, lambda pool: pool["spec"].update(reserved=reserve))
            return
        if rng.random() < 0.6:
            share = f"{rng.choice((10, 30, 50, 70, 100))}%"
            scene.edit(WORKER_POOLS, POOL, lambda pool: pool["spec"].update(maxSharePerDAG=share))
            planned = f"{scene.plan.share_percent}%"  # by which the load is drawn
            self._for_a_while(
                step, lambda: scene.edit(WORKER_POOLS, POOL, lambda pool: pool["spec"].update(maxSharePerDAG=planned))
            )
            return
        scene.edit(WORKER_POOLS, POOL, lambda pool: pool["spec"].update(namespaces={"allow": ["elsewhere"]}))
        self._for_a_while(
            step,
            lambda: scene.edit(WORKER_POOLS, POOL, lambda pool: pool["spec"].update(namespaces={"allow": ["*"]})),
        )
