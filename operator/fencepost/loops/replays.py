"""Replays: a person raises `spec.replay` of a dead letter, and its job is run again, once.

Where the letter's run is still there, that run goes on in another round. The write that begins the round notes which
letters it replays, and the run does not finish before each of them tells of it; so whoever crashes, the next leader
finds either a letter that is pending and a run that knows nothing of it, or a run that has its name. Before a letter is
given to its run it is read live, as a cache may lag behind what the leader before has told in it.

Where the run is gone, a new one is made under a name that follows from letter and replay: there already means done.

What remains: a new run that ends and is deleted before its letter could tell of it (two minutes at the least) is made
again.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fencepost.api import names as wire
from fencepost.api.codec import decode_run_status
from fencepost.api.letters import replayed_part
from fencepost.api.times import parse_time
from fencepost.apply.executor import Answer
from fencepost.apply.writers import Next
from fencepost.core.dead_letters import (
    FAILED,
    REFUSED,
    REPLAYING,
    SUCCEEDED,
    Replayed,
    letter_name,
    only_from,
    replay_run_name,
)
from fencepost.core.intents import Authority, CreateRun, WriteLetterStatus
from fencepost.core.intervals import EMPTY, IntervalSet
from fencepost.core.names import JobKey, RunKey
from fencepost.core.phases import JobPhase
from fencepost.core.rounds import begin_round
from fencepost.core.run_spec import Rerun, RerunFrom
from fencepost.core.run_state import LetterSet, RunState, Trigger
from fencepost.kube.errors import ApiError, NotFoundError
from fencepost.kube.protocol import Obj
from fencepost.loops.definitions import Compiled, DefinitionMissingError, Definitions
from fencepost.loops.world import World
from fencepost.observe.letters import LetterView
from fencepost.observe.reflector import ObjectName
from fencepost.observe.runs import RunView

log = logging.getLogger(__name__)

LOOK_S = 300.0
"""How often a letter is looked at whose run is under way, should nobody have told that it has ended."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The letters that a finished run is to replay in its next round."""

    sets: Mapping[LetterSet, IntervalSet]
    jobs: Mapping[str, IntervalSet]
    """The same by task."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """A round that replays letters, about to be stored."""

    view: RunView
    """The run, read live and whole, with the spec that it is to have."""
    state: RunState
    revision: str
    compiled: Compiled
    asked: Mapping[str, Any]
    """The fields of its spec that change."""


class Replays:
    """The replays of letters of the shards that this replica plans for."""

    def __init__(self, world: World, definitions: Definitions, touch_run: Callable[[RunKey], None]) -> None:
        self._world = world
        self._definitions = definitions
        self._touch_run = touch_run
        self._wanted: dict[str, set[ObjectName]] = {}
        """By a run's UID: letters that it is to replay once it has finished. Each was read live."""
        self._gone: dict[RunKey, set[ObjectName]] = {}
        """By run: letters that it may have noted as replayed, and that are there no more."""

    def letter_changed(self, view: LetterView) -> None:
        """A letter is there, or says something else."""
        if _open(view) and self._world.shards.authority(view.shard) is not None:
            self._touch(view.name, RunKey(view.name[0], view.letter.run))

    def letter_gone(self, view: LetterView) -> None:
        """A letter has been deleted: a run that has noted it need not wait for it."""
        run = self._world.runs.get(RunKey(view.name[0], view.letter.run))
        if run is not None and run.state is not None and run.state.replays:
            self._touch(view.name, run.key)

    def run_changed(self, view: RunView, old: RunView | None) -> None:
        """A run of the letters' has been stored: it replays some, or it has ended."""
        if view.state is not None and view.state.replays and (old is None or not old.state or not old.state.replays):
            for name in self._noted(view, view.state):
                self._touch(name, view.key)
        if view.finished and (old is None or not old.finished):
            self._look_after(view)
            if self.wants(view.uid):
                self._touch_run(view.key)

    def run_gone(self, view: RunView) -> None:
        """A run is gone: what it was to replay, a new one will."""
        self._wanted.pop(view.uid, None)
        self._look_after(view)

    def release(self, shard: int) -> None:
        """The shard is no longer ours: forget what only a leader may believe."""
        for view in list(self._world.runs.all()) if self._wanted or self._gone else ():
            if view.shard == shard:
                self._wanted.pop(view.uid, None)
                self._gone.pop(view.key, None)

    def _look_after(self, view: RunView) -> None:
        """Ask what became of the letters that a run has replayed, and of those that it was to."""
        self._gone.pop(view.key, None)
        for letter in list(self._world.letters.of_run(view.uid)):
            self.letter_changed(letter)

    def take_up(self, shards: Collection[int]) -> None:
        """Look at every letter of these shards of which something is wanted."""
        for view in list(self._world.letters.all()):
            if view.shard in shards:
                self.letter_changed(view)

    def wants(self, run_uid: str) -> bool:
        """Whether a run is to replay letters once it has finished."""
        return bool(self._wanted.get(run_uid))

    def told(self, view: RunView, state: RunState) -> dict[LetterSet, IntervalSet]:
        """Of the letters that this round replays, those that tell of it by now."""
        told: dict[LetterSet, set[int]] = {}
        for name, (letters, index) in self._noted(view, state).items():
            letter = self._world.letters.get(name)
            replayed = None if letter is None else letter.letter.replayed
            if name in self._gone.get(view.key, ()) or (
                replayed is not None and (replayed.run_uid, replayed.round) == (view.uid, state.round)
            ):
                told.setdefault(letters, set()).add(index)
        return {letters: IntervalSet.of(indices) for letters, indices in told.items()}

    async def prepare(
        self, known: RunView, authority: Authority, admits: Callable[[RunView], bool]
    ) -> Beginning | Next | None:
        """The round in which a finished run replays what is wanted of it; None while its DAG has no room for it."""
        world, key = self._world, known.key
        try:
            view = world.runs.whole(await world.api.get(wire.DAG_RUNS, key.namespace, key.name))
        except NotFoundError:
            return Next.AGAIN if await world.refresh_run(key) else Next.RETRY
        except ApiError:
            return Next.RETRY
        if view.uid != known.uid or view.round_due or not view.finished:
            return Next.AGAIN if await world.refresh_run(key) else Next.RETRY
        spec, state = view.spec, view.state
        if spec is None or state is None or not spec.revision or spec.round != state.round:
            why = "its run was never begun, or another round of it was called off; create a run by hand"
            return Next.REST if await self._refuse_all(view, authority, why) else Next.RETRY
        if not admits(view):
            return None
        wanted = await self._choose(view, state, authority)
        if wanted is None or not wanted.sets:
            return Next.RETRY if wanted is None else Next.REST
        try:
            compiled = await self._definitions.of_run(key, view.dag, spec.revision)
        except DefinitionMissingError as error:
            return Next.REST if await self._refuse_all(view, authority, str(error)) else Next.RETRY
        except ApiError:
            return Next.RETRY
        number = state.round + 1
        asked = {"round": number, "rerun": {"round": number, "from": str(RerunFrom.JOBS)}, "cancel": False}
        view.spec = replace(spec, round=number, rerun=Rerun(RerunFrom.JOBS, wanted.jobs), cancel=False)
        begun = replace(begin_round(state, number), replays=wanted.sets)
        return Beginning(view, begun, spec.revision, compiled, asked)

    async def _choose(self, view: RunView, state: RunState, authority: Authority) -> Wanted | None:
        """Which letters the finished run is to replay now; None where some could not be told of yet.

        A letter whose job has succeeded meanwhile has nothing to replay, and says so.
        """
        sets: dict[LetterSet, IntervalSet] = {}
        jobs: dict[str, IntervalSet] = {}
        for name in list(self._wanted.get(view.uid, ())):
            letter = self._world.letters.get(name)
            if letter is None or not letter.letter.pending:
                self._wanted[view.uid].discard(name)
                continue
            task, index = letter.letter.job.task, letter.letter.job.index
            if _phase(state, letter.letter.job) is JobPhase.SUCCEEDED:
                replayed = Replayed(SUCCEEDED, letter.letter.replay, view.key.name, view.uid, state.round)
                if await self._tell(letter, authority, replayed, "the job had succeeded already") is not Next.REST:
                    return None
                continue
            letters = LetterSet(task, letter.letter.round)
            sets[letters] = sets.get(letters, EMPTY).union(IntervalSet.of([index]))
            jobs[task] = jobs.get(task, EMPTY).union(IntervalSet.of([index]))
        return Wanted(sets, jobs)

    async def _refuse_all(self, view: RunView, authority: Authority, why: str) -> bool:
        """The run cannot replay what is wanted of it; whether all letters say so."""
        for name in list(self._wanted.get(view.uid, ())):
            letter = self._world.letters.get(name)
            if letter is not None and await self._refuse(letter, authority, why) is not Next.REST:
                return False
            self._wanted[view.uid].discard(name)
        return True

    def _noted(self, view: RunView, state: RunState) -> dict[ObjectName, tuple[LetterSet, int]]:
        """The letters that this round replays, by name."""
        return {
            (view.key.namespace, letter_name(view.dag.name, view.uid, JobKey(letters.task, index), letters.round)): (
                letters,
                index,
            )
            for letters, indices in state.replays.items()
            for index in indices
        }

    def _touch(self, name: ObjectName, run: RunKey) -> None:
        self._world.writers.touch(("replay", name), lambda: self._turn(name, run))

    async def _turn(self, name: ObjectName, run: RunKey) -> Next | float:
        """Look after one letter; `run`: the one that waits for it to tell."""
        view = self._world.letters.get(name)
        if view is not None and (not _open(view) or (not view.letter.pending and self._under_way(view))):
            return Next.REST
        try:
            obj = await self._world.api.get(wire.DEAD_LETTERS, *name)
        except NotFoundError:
            self._world.letters.remove(name, 2**63)
            self._gone.setdefault(run, set()).add(name)
            self._touch_run(run)
            return Next.REST
        except ApiError:
            return Next.RETRY
        self._world.letters.upsert(obj)
        view = self._world.letters.get(name)
        authority = None if view is None else self._world.shards.authority(view.shard)
        if view is None or authority is None:
            return Next.REST
        if view.letter.pending:
            return await self._begin(view, authority, obj)
        return await self._end(view, authority) if _open(view) else Next.REST

    def _under_way(self, view: LetterView) -> bool:
        """Whether the run that replays a letter goes on, as far as is known here."""
        run = self._world.runs.get(RunKey(view.name[0], view.letter.replayed.run))
        return run is not None and run.uid == view.letter.replayed.run_uid and not run.finished

    async def _begin(self, view: LetterView, authority: Authority, obj: Obj) -> Next | float:
        """A replay is asked for: see what has become of it already, or see to it."""
        letter = view.letter
        key = RunKey(view.name[0], letter.run)
        run = self._world.runs.get(key)
        if run is None or run.uid != letter.run_uid:
            if not await self._world.refresh_run(key):
                return Next.RETRY
            run = self._world.runs.get(key)
        if run is None or run.uid != letter.run_uid:
            return await self._begin_anew(view, authority, obj)
        noted = run.state.replays.get(LetterSet(letter.job.task, letter.round), EMPTY) if run.state else EMPTY
        if run.state is not None and letter.job.index in noted:
            replayed = Replayed(REPLAYING, letter.replay, run.key.name, run.uid, run.state.round)
            told = await self._tell(view, authority, replayed, "")
            if told is Next.REST:
                self._touch_run(run.key)
            return LOOK_S if told is Next.REST else told
        self._wanted.setdefault(run.uid, set()).add(view.name)
        self._touch_run(run.key)
        return LOOK_S

    async def _begin_anew(self, view: LetterView, authority: Authority, obj: Obj) -> Next | float:
        """The letter's run is gone: a new one runs its job, and what depends on it."""
        letter, job, namespace = view.letter, obj["spec"]["job"], view.name[0]
        run = RunKey(namespace, replay_run_name(letter.dag, view.name[1], letter.replay))
        dag = self._world.dags.get(view.dag)
        if dag is None:
            return await self._refuse(view, authority, f"its run and DAG {view.dag} are gone")
        try:
            compiled = await self._definitions.of_run(run, view.dag, job["revision"])
        except DefinitionMissingError as error:
            return await self._refuse(view, authority, str(error))
        except ApiError:
            return Next.RETRY
        state = only_from(compiled.graph, letter.job, authority.epoch)
        if state is None:
            why = f"{job['revision']} alone does not say what job {letter.job} is: the run that is gone did"
            return await self._refuse(view, authority, why)
        intent = CreateRun(
            authority,
            run,
            view.dag,
            dag.uid,
            job["revision"],
            Trigger.MANUAL,
            int(parse_time(job["scheduledTime"])),
            state,
            params=job.get("params", {}),
        )
        written = await self._world.executor.execute(intent)
        if written.answer is Answer.REFUSED:
            return await self._refuse(view, authority, f"a run for it was refused: {written.error}")
        if written.object is not None:
            self._world.runs.upsert(written.object)
        elif written.answer is not Answer.EXISTS or not await self._world.refresh_run(run):
            return Next.RETRY
        made = self._world.runs.get(run)
        if made is None:
            return Next.AGAIN
        self._touch_run(run)
        return await self._tell(view, authority, Replayed(REPLAYING, letter.replay, run.name, made.uid, 0), "")

    async def _end(self, view: LetterView, authority: Authority) -> Next | float:
        """What became of the job that is run again?"""
        letter, replayed = view.letter, view.letter.replayed
        try:
            run = await self._world.api.get(wire.DAG_RUNS, view.name[0], replayed.run)
        except NotFoundError:
            run = {}
        except ApiError:
            return Next.RETRY
        if run.get("metadata", {}).get("uid") != replayed.run_uid:
            return await self._tell(view, authority, _ended(replayed, FAILED), "its run was deleted before its end")
        try:
            state = decode_run_status(run["status"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return await self._tell(view, authority, _ended(replayed, FAILED), f"its run cannot be read: {error!r}")
        if not state.phase.finished:
            return LOOK_S
        phase = _phase(state, letter.job)
        how = SUCCEEDED if phase is JobPhase.SUCCEEDED else FAILED
        text = "" if phase in (JobPhase.SUCCEEDED, JobPhase.FAILED) else f"the job ended as {phase}"
        return await self._tell(view, authority, _ended(replayed, how), text)

    async def _refuse(self, view: LetterView, authority: Authority, why: str) -> Next | float:
        return await self._tell(view, authority, Replayed(REFUSED, view.letter.replay), why)

    async def _tell(self, view: LetterView, authority: Authority, replayed: Replayed, message: str) -> Next | float:
        """Write a letter's status; REST once it is stored."""
        status = replayed_part(replayed, message, self._world.clock.now_s())
        written = await self._world.executor.execute(WriteLetterStatus(authority, view.record, status))
        match written.answer:
            case Answer.DONE:
                assert written.object is not None
                self._world.letters.upsert(written.object)
                return Next.REST
            case Answer.NOT_LEADING | Answer.GONE:
                return Next.REST
            case Answer.CONFLICT | Answer.EXISTS:
                return Next.AGAIN
            case _:
                return Next.RETRY


def _open(view: LetterView) -> bool:
    """Whether something is wanted of the letter, or under way for it."""
    return view.letter.pending or view.letter.replayed.phase == REPLAYING


def _ended(replayed: Replayed, phase: str) -> Replayed:
    return Replayed(phase, replayed.replay, replayed.run, replayed.run_uid, replayed.round)


def _phase(state: RunState, job: JobKey) -> JobPhase | None:
    task = state.tasks.get(job.task)
    return None if task is None else task.phase_of(job.index)
