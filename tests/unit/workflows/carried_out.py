"""DAGs carried out with what their jobs exit with from a seed: by the planner alone, or by whole schedulers and workers
on the stage."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from fencepost.api.read import read_dag
from fencepost.core.dag_spec import DagSpec
from fencepost.core.run_state import Outcome, RunState
from fencepost.worker.runner import Launch
from tests.unit.loops.stage import Stage, play
from tests.unit.support.builders import a_result
from tests.unit.support.run_stage import RunStage
from tests.unit.workflows.reference import Ending, ExitCodeOf

OutputOf = Callable[[str], str]
"""Of a task's jobs that succeed."""
JOB_S = 0.5
LIMIT_S = 3_000.0
TURNS_MAX = 2_000


def codes_from(seed: int, share: float, codes: tuple[int, ...] = (1, 2, 75)) -> ExitCodeOf:
    """Exit codes that hang on the seed and on nothing else: that share of all attempts fails, with one of these."""

    def exit_code_of(task: str, index: int, attempt: int) -> int:
        chance = Random(zlib.crc32(f"{seed} {task}/{index} {attempt}".encode()))
        return chance.choice(codes) if chance.random() < share else 0

    return exit_code_of


def nothing(task: str) -> str:
    """What tasks put out that put out nothing."""
    return ""


def carry_out(spec: Mapping[str, Any], exit_code_of: ExitCodeOf, seed: int, output_of: OutputOf = nothing) -> RunState:
    """One run of the DAG to its end. Half-way a worker is killed, and another replica takes the shard over."""
    ended: list[RunState] = []

    async def story(stage: Stage) -> None:
        chance = Random(seed)
        ann, ben = stage.leader("Ann"), stage.replica("Ben")
        workers = [stage.worker(f"w{number}", slots=chance.randint(4, 12), job_s=None) for number in range(3)]
        for worker in workers:
            worker.runner.on_start = lambda launch: (
                chance.random() * 2 * JOB_S,
                _code(launch, exit_code_of),
                output_of(launch.source.job.task),
            )
        stage.dag("etl", **spec)
        stage.manual_run("r1", "etl")
        await stage.pass_time(chance.uniform(0.5, 5.0))
        workers[0].kill()
        await stage.pass_time(chance.uniform(0.5, 5.0))
        ann.kill()
        stage.lead(ben)
        while not stage.finished("r1"):
            assert stage.now_s < LIMIT_S, stage.run("r1")
            await stage.pass_time(5.0)
        ended.append(stage.run("r1"))
        await stage.until(stage.quiet)

    play(story)
    return ended[0]


def plan_out(spec: Mapping[str, Any], exit_code_of: ExitCodeOf, seed: int, output_of: OutputOf = nothing) -> RunState:
    """One run of the DAG, by the planner alone: jobs end in any order, a few workers are lost, leaders change."""
    dag = read_dag({"metadata": {"name": "etl"}, "spec": spec})
    assert isinstance(dag, DagSpec), dag
    run, chance = RunStage(*dag.definition.tasks), Random(seed)
    for turn in range(TURNS_MAX):
        if run.state.phase.finished:
            return run.state
        for job, lease in run.state.leases.items():
            if chance.random() < 0.5:
                code = exit_code_of(job.task, job.index, lease.attempt)
                result = a_result(lease.token, Outcome.FAILED if code else Outcome.SUCCEEDED, code)
                run.hears(lease.worker, str(job), replace(result, output="" if code else output_of(job.task)))
            elif chance.random() < 0.05 and lease.losses < 4:
                run.lost.add(lease.worker)
        run.epoch += chance.random() < 0.1
        plan = run.look()
        free = chance.randint(1, 100) - len(plan.state.leases)
        # each job has a worker of its own, so that one that is lost is lost under one job
        wanted = [(each.task, f"{each.task}-{turn}-{place}") for each in plan.demands for place in range(each.count)]
        run.plan(*wanted[: max(0, free)])
        run.now_s = max(run.now_s + 1, plan.wake_at_s or 0.0)
    raise AssertionError("the run does not end")


def _code(launch: Launch, exit_code_of: ExitCodeOf) -> int:
    job = launch.source.job
    return exit_code_of(job.task, job.index, int(launch.env["FENCEPOST_ATTEMPT"]))


def differences(state: RunState, want: Ending) -> list[str]:
    """What ended otherwise than it must; each says which job, how it ended, and how it must have."""
    told = {f"{name}/{index}": _phase(state, name, index) for name, index in map(_place, want.jobs)}
    wrong = [f"{job}: {told[job]}, not {sorted(may)}" for job, may in want.jobs.items() if told[job] not in may]
    if state.phase != want.run:
        wrong.append(f"the run: {state.phase}, not {want.run}")
    if (state.done, state.total) != (len(want.jobs), len(want.jobs)):
        wrong.append(f"{state.done} of {state.total} jobs have ended, not {len(want.jobs)}")
    for task, outcome in want.tasks.items():
        phases = {told[job] for job in want.jobs if job.startswith(f"{task}/")}
        if outcome == "Failed" and "Failed" not in phases:
            wrong.append(f"no job of {task} has failed")
    return wrong


def _place(job: str) -> tuple[str, int]:
    task, _, index = job.partition("/")
    return task, int(index)


def _phase(state: RunState, task: str, index: int) -> str:
    known = state.tasks.get(task)
    return str(known.phase_of(index)) if known else "not at all"
