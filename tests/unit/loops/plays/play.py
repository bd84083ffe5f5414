"""Plays timelines of whole schedulers: each line a sentence, which does one thing on the stage or checks one thing.

On the stage stand the real schedulers and workers, on an API server in memory and in virtual time. A line begins with
the second of the story at which it happens, or with the time, or happens right after the line above. What is checked
(`->`) must be so at that very moment.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fencepost.api.names import DAG_RUNS, DAGS
from fencepost.api.times import parse_time
from fencepost.core.plan_workers import order_of
from fencepost.core.run_state import Order
from fencepost.kube.errors import NotFoundError
from fencepost.memory.faults import Fault, Request
from tests.unit.loops.processes import StageWorker
from tests.unit.loops.stage import NOON_S, Stage, a_task, play, slot
from tests.unit.support.sentences import meaning_of, sentences


class Teller:
    """Does what sentences say."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.undo: dict[str, Callable[[], None]] = {}
        self.herd: list[str] = []

    # Who is there.

    def has_dag(self, name: str, retries: str | None, limit_s: str | None, schedule: str | None, tasks: str) -> None:
        limits = {} if retries is None else {"retries": {"limit": int(retries), "backoff": {"jitter": 0}}}
        self.stage.dag(
            name,
            *[
                a_task(*task.replace(" after ", " ").split(), **({} if limit_s is None else {"timeout": f"{limit_s}s"}))
                for task in tasks.split(", ")
            ],
            cron="* * * * *" if schedule else None,
            history={"succeeded": 1},
            **limits,
        )

    def has_dag_on(self, name: str, cron: str, zone: str, tasks: str) -> None:
        schedule = {"cron": [cron], "timeZone": zone}
        self.stage.dag(name, *[a_task(task) for task in tasks.split(", ")], schedule=schedule)

    def has_herd(self, size: str, minute: str) -> None:
        self.herd = [f"herd-{number:04}" for number in range(int(size))]
        for name in self.herd:
            self.stage.dag(name, cron=f"{minute} 12 * * *")

    def has_worker(self, pod: str, slots: str, job_s: str | None) -> None:
        older = self.stage.workers.get(pod)
        self.stage.worker(
            pod,
            nonce="aaaaa" if older is None else "bbbbb",
            slots=int(slots),
            job_s=None if job_s is None else float(job_s),
        )

    def stands_by(self, name: str) -> None:
        self.stage.replica(name)

    def leads(self, name: str) -> None:
        self.stage.lead(self.stage.replicas.get(name) or self.stage.replica(name))

    # What happens to processes.

    def process(self, name: str) -> Any:
        return self.stage.replicas.get(name) or self.stage.workers[name]

    def is_killed(self, name: str) -> None:
        self.process(name).kill()

    def freezes(self, name: str) -> None:
        self.process(name).freeze()

    def wakes_up(self, name: str) -> None:
        self.process(name).thaw()

    def is_cut_off(self, who: str) -> None:
        names = [*self.stage.replicas, *self.stage.workers] if who == "everybody" else [who]
        self.undo[f"cut {who}"] = self.stage.cut_off(*names)

    def is_back(self, who: str) -> None:
        self.undo.pop(f"cut {who}")()

    def hears_late(self, name: str, seconds: str) -> None:
        late = Fault(delay_s=float(seconds))
        self.stage.trouble(lambda asked, request: late if (asked, request.verb) == (name, "event") else None)

    def next_is_late(self, name: str, verb: str, plural: str, subresource: str | None, seconds: str) -> None:
        waiting = [Fault(delay_s=float(seconds))]
        wanted = ({"POST": "create", "PUT": "update", "DELETE": "delete"}[verb], plural, subresource or "")

        def find(asked: str, request: Request) -> Fault | None:
            this = (request.verb, request.kind.plural, request.subresource)
            return waiting.pop() if waiting and asked == name and this == wanted else None

        self.stage.trouble(find)

    def creates_slowly(self, name: str, seconds: str) -> None:
        slow = Fault(delay_s=float(seconds))
        self.stage.trouble(
            lambda asked, request: slow if (asked, request.verb, request.kind) == (name, "create", DAG_RUNS) else None
        )

    # What people do.

    def creates_run(self, name: str, dag: str) -> None:
        self.stage.manual_run(name, dag)

    def sets_schedule(self, dag: str, cron: str) -> None:
        self.stage.edit(DAGS, dag, schedule={"cron": [cron]})

    async def deletes_run(self, name: str) -> None:
        await self.stage.delete(DAG_RUNS, self.name_of(name))

    # What jobs do.

    def job_ends(self, task: str, pod: str, exit_code: str | None) -> None:
        [job] = self.stage.workers[pod].runner.of_task(task)
        job.end(int(exit_code or 0))

    # What must be so.

    def name_of(self, run: str) -> str:
        return slot(int(run.removeprefix("of minute "))) if run.startswith("of minute ") else run

    async def has_fired(self, dag: str, minutes: str) -> None:
        assert await self.stage.slots_fired(dag) == {int(minute): 1 for minute in minutes.split(", ")}

    async def has_fired_at(self, dag: str, times: str) -> None:
        fired = await self.stage.slots_fired(dag)
        assert fired == {(parse_time(time) - NOON_S) // 60: 1 for time in times.split(", ")}

    async def has_not_fired(self, dag: str) -> None:
        assert not await self.stage.slots_fired(dag)

    def next_time_is(self, dag: str, time: str) -> None:
        assert self.stage.get(DAGS, dag)["status"]["nextScheduledTime"] == time

    def fired_of_herd(self) -> Counter[str]:
        return Counter(run["spec"]["dag"] for run in self.stage.all(DAG_RUNS) if run["spec"]["dag"] in self.herd)

    def some_have_fired(self) -> None:
        assert 0 < len(self.fired_of_herd()) < len(self.herd)

    def herd_has_fired_once(self) -> None:
        assert self.fired_of_herd() == Counter(self.herd)

    def run_is(self, run: str, phase: str) -> None:
        assert self.stage.run(self.name_of(run)).phase == phase

    def run_is_not_there(self, run: str) -> None:
        assert self.stage.find(DAG_RUNS, self.name_of(run)) is None

    def runs_on(self, task: str, pod: str) -> None:
        assert len(self.stage.workers[pod].runner.of_task(task)) == 1

    def is_leased(self, task: str, run: str, worker: str, token: str, attempt: str | None, losses: str | None) -> None:
        [lease] = [lease for job, lease in self.stage.run(self.name_of(run)).leases.items() if job.task == task]
        want = (worker, int(token), int(attempt or 1), int(losses or 0))
        assert (lease.worker, lease.token, lease.attempt, lease.losses) == want

    def waits_for(self, task: str, run: str, attempt: str) -> None:
        [waiting] = [wait for job, wait in self.stage.run(self.name_of(run)).waiting.items() if job.task == task]
        assert waiting.attempt == int(attempt)

    def is_to_stop(self, task: str, pod: str) -> None:
        [entry] = [text for key, text in self.stage.mailbox(self.worker_of(pod)).items() if f"/{task}/" in key]
        assert order_of(entry) == Order.STOP

    def nothing_runs_on(self, pod: str) -> None:
        assert not [job for job in self.stage.workers[pod].runner.jobs if not job.ended]

    def was_started(self, task: str, times: str) -> None:
        started = [job for _, job in self.stage.started if job.launch.source.job.task == task]
        assert len(started) == int(times)

    def was_refused(self, name: str, times: str, intent: str, status: str) -> None:
        replica = self.stage.replicas[name]
        assert replica.count("writes_refused_total", intent=intent, status=status) == int(times)

    def result_was_refused(self, pod: str, times: str) -> None:
        assert self.stage.workers[pod].metrics.refused == int(times)

    def is_fenced(self, name: str) -> None:
        assert self.stage.is_fenced(self.worker_of(name))

    def is_not_fenced(self, name: str) -> None:
        workers = self.stage.workers.values() if name == "nobody" else [self.worker_of(name)]
        assert not any(self.stage.is_fenced(worker) for worker in workers)

    def has_ended(self, pod: str) -> None:
        assert self.stage.workers[pod].over

    def all_is_quiet(self) -> None:
        assert self.stage.quiet()

    def worker_of(self, name: str) -> StageWorker:
        return next(worker for worker in self.stage.all_workers if name in (worker.full_name, worker.settings.pod))


RUN = r"(?:run )?(of minute \d+|[\w-]+)"
SENTENCES: list[tuple[str, Callable[..., Coroutine[Any, Any, None] | None]]] = [
    (r"DAG (\w+)(?: with (\d+) retr(?:y|ies))?(?: within (\d+) s)?( every minute)?: (.+)", Teller.has_dag),
    (r'DAG (\w+) on "(.+)" in (\S+): (.+)', Teller.has_dag_on),
    (r"a herd of (\d+) DAGs, all due at minute (\d+)", Teller.has_herd),
    (r"worker (\w+) with (\d+) slots?(?:, jobs of (\d+) s)?", Teller.has_worker),
    (r"(\w+) stands by", Teller.stands_by),
    (r"(\w+) leads", Teller.leads),
    (r"(\w+) is killed", Teller.is_killed),
    (r"(\w+) freezes", Teller.freezes),
    (r"(\w+) wakes up", Teller.wakes_up),
    (r"(\w+) is cut off", Teller.is_cut_off),
    (r"(\w+) is back", Teller.is_back),
    (r"what (\w+) hears comes (\d+) s late", Teller.hears_late),
    (r"(\w+)'s next (\w+) of (\w+)(?:/(\w+))? takes (\d+) s", Teller.next_is_late),
    (r"each create of (\w+) takes ([\d.]+) s", Teller.creates_slowly),
    (r'a person sets the schedule of (\w+) to "(.+)"', Teller.sets_schedule),
    (r"a person creates run (\S+) of (\w+)", Teller.creates_run),
    (rf"a person deletes {RUN}", Teller.deletes_run),
    (r"(\w+) on (\w+) ends(?: with exit code (\d+))?", Teller.job_ends),
    (r"-> (\w+) has fired once for each of the minutes ([\d, ]+)", Teller.has_fired),
    (r"-> (\w+) has fired once for each of the times (\S+Z(?:, \S+Z)*)", Teller.has_fired_at),
    (r"-> (\w+) has not fired", Teller.has_not_fired),
    (r"-> the next time of (\w+) is (\S+Z)", Teller.next_time_is),
    (r"-> some of the herd have fired, and some have not", Teller.some_have_fired),
    (r"-> each of the herd has fired once", Teller.herd_has_fired_once),
    (rf"-> {RUN} is (Pending|Running|Succeeded|Failed|Cancelled)", Teller.run_is),
    (rf"-> {RUN} is not there", Teller.run_is_not_there),
    (r"-> (?!nothing)(\w+) runs on (\w+)", Teller.runs_on),
    (
        rf"-> (\w+) of {RUN} is leased to (\S+): token (\d+)(?:, attempt (\d+))?(?:, (\d+) loss(?:es)?)?",
        Teller.is_leased,
    ),
    (rf"-> (\w+) of {RUN} waits for attempt (\d+)", Teller.waits_for),
    (r"-> (\w+) on (\w+) is to stop", Teller.is_to_stop),
    (r"-> nothing runs on (\w+)", Teller.nothing_runs_on),
    (r"-> (\w+) has been started (\d+) times?", Teller.was_started),
    (r"-> (\w+) has been refused (\d+) (\w+) with (\d+)", Teller.was_refused),
    (r"-> (\w+) has had (\d+) results? refused", Teller.result_was_refused),
    (r"-> (\S+) is fenced", Teller.is_fenced),
    (r"-> (\S+) is not fenced", Teller.is_not_fenced),
    (r"-> (\w+) has ended", Teller.has_ended),
    (r"-> all is quiet", Teller.all_is_quiet),
]


def play_text(text: str) -> None:
    """Play a timeline; AssertionError, with the line, where something is otherwise than it says."""

    async def story(stage: Stage) -> None:
        teller = Teller(stage)
        for sentence in sentences(text):
            seconds = sentence.seconds if sentence.time is None else parse_time(sentence.time) - NOON_S
            if seconds is not None:
                await stage.at(seconds)
            act, words = meaning_of(sentence, SENTENCES)
            try:
                done = act(teller, *words)
                if done is not None:
                    await done
            except (AssertionError, KeyError, ValueError, NotFoundError) as error:
                raise AssertionError(f"line {sentence.number}: {sentence.text!r} is not so: {error!r}") from error

    play(story)
