"""How a worker comes into being, also when the API server makes it hard."""

import pytest

from fencepost.api.names import LEASES, ROLE_LABEL, WORKERS
from fencepost.kube.errors import ConnectionLostError, InvalidError
from fencepost.memory.faults import Fault
from fencepost.worker.registration import RegistrationRefusedError
from tests.unit.worker.stage import Stage, failing_once, play


def test_a_worker_has_its_lease_before_anybody_can_see_it() -> None:
    async def story(stage: Stage) -> None:
        await stage.open()
        assert [(request.verb, request.kind) for request in stage.requests[:2]] == [
            ("create", LEASES),
            ("create", WORKERS),
        ]
        lease = await stage.lease()
        assert lease["metadata"]["labels"][ROLE_LABEL] == "worker"
        assert lease["spec"]["holderIdentity"] == stage.name
        assert lease["spec"]["leaseDurationSeconds"] == 30
        assert (await stage.stored())["spec"] == {"pool": "default", "slots": 10}

    play(story)


def test_registration_waits_for_an_api_server_that_is_away() -> None:
    async def story(stage: Stage) -> None:
        stage.break_down()
        stage.start()
        await stage.pass_time(120)
        assert not stage.over
        stage.recover()
        await stage.until(lambda: bool(stage.seen("watch", WORKERS)))

    play(story)


@pytest.mark.parametrize("kind", [LEASES, WORKERS])
def test_an_object_whose_creation_got_no_answer_is_taken_over(kind: object) -> None:
    async def story(stage: Stage) -> None:
        lost = Fault(error=ConnectionLostError("no answer"), carried_out=True)
        stage.fault = failing_once("create", kind, lost)  # type: ignore[arg-type]
        await stage.open()
        await stage.pass_time(60)
        assert not stage.over

    play(story)


def test_a_cluster_that_calls_the_worker_invalid_ends_it_with_the_reason() -> None:
    async def story(stage: Stage) -> None:
        stage.break_down("create", error=InvalidError("spec.pool: no such thing"))
        stage.start()
        with pytest.raises(RegistrationRefusedError, match="no such thing"):
            await stage.end()

    play(story)
