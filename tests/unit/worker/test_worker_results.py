"""Results on their way into the status: coalesced, never lost, refused one by one if need be; in virtual time."""

from typing import Any

import orjson
import pytest

from fencepost.api.codec import MESSAGE_BYTES_MAX
from fencepost.api.names import WORKERS
from fencepost.core.outputs import LIST_BYTES_MAX
from fencepost.core.run_state import Order, Outcome
from fencepost.kube.errors import ConnectionLostError, InvalidError, OverloadedError, ServerError
from fencepost.memory.faults import Fault
from tests.unit.worker.stage import Stage, entry, failing_once, key_of, play

A, B = key_of(0), key_of(1)


def test_results_that_end_at_nearly_the_same_time_share_one_write() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({key_of(index): entry() for index in range(10)})
        await stage.until(lambda: len(stage.runner.jobs) == 10)
        for job in stage.runner.jobs:
            job.end()
            await stage.pass_time(0.004)
        await stage.answer(key_of(9))
        assert len(await stage.results()) == 10
        assert stage.status_writes == 1

    play(story)


def test_what_ends_while_a_write_is_under_way_goes_into_the_next_one() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({key_of(index): entry() for index in range(10)})
        await stage.until(lambda: len(stage.runner.jobs) == 10)
        stage.fault = lambda request: Fault(answer_delay_s=2) if request.subresource == "status" else None
        for job in stage.runner.jobs:
            job.end()
            await stage.pass_time(0.15)
        await stage.pass_time(10)
        assert len(await stage.results()) == 10
        assert stage.status_writes == 2

    play(story)


def test_results_leave_the_status_with_the_next_write_after_they_were_taken() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(), B: entry()})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        stage.runner.job(0).end()
        await stage.answer(A)
        await stage.take(A)
        await stage.pass_time(5)
        assert stage.status_writes == 1, "leaving is not worth a write"
        stage.runner.job(1).end()
        await stage.answer(B)
        assert list(await stage.results()) == [B]

    play(story)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(error=ConnectionLostError("no answer"), carried_out=True),
        Fault(error=ConnectionLostError("no answer")),
        Fault(error=ServerError("internal error")),
        Fault(error=OverloadedError("too many requests")),
    ],
)
def test_a_result_whose_write_went_wrong_is_written_all_the_same(fault: Fault) -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry()})
        await stage.until(lambda: bool(stage.runner.jobs))
        stage.fault = failing_once("update", WORKERS, fault, "status")
        stage.runner.job(0).end()
        await stage.answer(A)
        await stage.pass_time(20)
        assert stage.status_writes <= 2
        assert not stage.over

    play(story)


def test_a_conflict_costs_a_read_and_nothing_else() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry()})
        await stage.until(lambda: bool(stage.runner.jobs))
        stage.fault = lambda request: Fault(delay_s=3) if request.verb == "event" else None
        await stage.deliver({B: entry()})
        stage.runner.job(0).end()
        assert (await stage.answer(A)).outcome is Outcome.SUCCEEDED
        assert stage.status_writes == 2
        await stage.until(lambda: stage.runner.started() == [0, 1])

    play(story)


def test_a_result_for_a_lease_that_was_taken_back_is_dropped_and_the_others_get_through() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(7), B: entry(7)})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        stage.fault = lambda request: Fault(delay_s=3) if request.verb == "event" else None
        await stage.deliver({A: entry(9, order=Order.STOP)})
        for job in stage.runner.jobs:
            job.end()
        await stage.answer(B)
        results = await stage.results()
        assert (results[A].token, results[A].outcome) == (9, Outcome.STOPPED)
        assert (results[B].token, results[B].outcome) == (7, Outcome.SUCCEEDED)

    play(story)


def test_a_refusal_that_a_new_look_explains_is_counted_and_forgotten() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(7), B: entry(7)})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        refusal = Fault(error=InvalidError("the lease it answers has been taken back"), delay_s=1)
        stage.fault = failing_once("update", WORKERS, refusal, "status")
        for job in stage.runner.jobs:
            job.end()
        await stage.until(lambda: stage.status_writes == 1)
        await stage.take(A)
        await stage.answer(B)
        assert list(await stage.results()) == [B]
        assert stage.metrics.refused == 1

    play(story)


def test_one_result_that_the_server_will_not_have_costs_the_others_nothing() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        keys = [key_of(index) for index in range(4)]
        await stage.deliver(dict.fromkeys(keys, entry()))
        await stage.until(lambda: len(stage.runner.jobs) == 4)
        real = stage.server.engine.replace

        def refuse_poison(identity: Any, kind: Any, content: bytes, subresource: str) -> Any:
            if b"poison" in content:
                raise InvalidError("status.results: too strange")
            return real(identity, kind, content, subresource)

        stage.server.engine.replace = refuse_poison  # type: ignore[method-assign]
        for index in range(4):
            stage.runner.job(index).end(0, output="poison" if index == 1 else "fine")
        for key in keys:
            await stage.answer(key)
        results = await stage.results()
        assert [results[key].output for key in keys] == ["fine", "", "fine", "fine"]
        assert (results[keys[1]].outcome, results[keys[1]].exit_code) == (Outcome.FAILED, 0)
        assert "refused the texts" in results[keys[1]].message

    play(story)


def test_a_result_that_the_server_will_not_have_even_without_texts_is_given_up_alone() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(), B: entry()})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        real = stage.server.engine.replace

        def refuse_first(identity: Any, kind: Any, content: bytes, subresource: str) -> Any:
            if A in orjson.loads(content)["status"]["results"]:
                raise InvalidError("status.results: too strange")
            return real(identity, kind, content, subresource)

        stage.server.engine.replace = refuse_first  # type: ignore[method-assign]
        stage.runner.job(0).end()
        stage.runner.job(1).end()
        assert (await stage.answer(B)).outcome is Outcome.SUCCEEDED
        await stage.pass_time(5)
        assert stage.metrics.refused == 1
        assert stage.status_writes == 4, "both, the first, the first without texts, the second"

    play(story)


def test_a_refusal_is_judged_only_after_a_new_look_at_the_mailbox() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry()})
        await stage.until(lambda: bool(stage.runner.jobs))
        blind = [Fault(error=InvalidError("no")), Fault(error=ServerError("internal error"))]
        stage.fault = lambda request: blind.pop(0) if request.kind is WORKERS and blind else None
        stage.runner.job(0).end(0, output="kept")
        assert (await stage.answer(A)).output == "kept"

    play(story)


def test_results_beyond_what_a_status_holds_wait_until_others_have_been_taken() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        keys = [key_of(index) for index in range(25)]
        await stage.deliver(dict.fromkeys(keys, entry()))
        await stage.until(lambda: len(stage.runner.jobs) == 25)
        for job in stage.runner.jobs:
            job.end(0, output="\x00" * 800)
        taken: list[str] = []
        while len(taken) < 25:
            await stage.pass_time(5)
            answered = await stage.results()
            assert len(orjson.dumps((await stage.stored())["status"])) <= 64 * 1024
            await stage.take(*answered)
            taken += answered
        assert sorted(taken) == sorted(keys)

    play(story, slots=25)


def test_a_result_that_is_larger_than_what_a_status_holds_goes_by_itself() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry(), B: entry()})
        await stage.until(lambda: len(stage.runner.jobs) == 2)
        stage.runner.job(0).end(0, output="x" * LIST_BYTES_MAX)
        stage.runner.job(1).end()
        taken: list[str] = []
        while len(taken) < 2:
            await stage.pass_time(5)
            (key,) = await stage.results()
            await stage.take(key)
            taken.append(key)
        assert sorted(taken) == [A, B]

    play(story)


def test_a_message_of_control_characters_stays_within_its_limit() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        await stage.deliver({A: entry()})
        await stage.until(lambda: bool(stage.runner.jobs))
        stage.runner.job(0).end(1, tail="\x1b" * MESSAGE_BYTES_MAX)
        assert len((await stage.answer(A)).message) * len("\\u001b") <= MESSAGE_BYTES_MAX

    play(story)
