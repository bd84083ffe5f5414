"""Names: what is derived is pinned, what is written can be read, and shards are as even as a hash."""

import re
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.names import (
    DagKey,
    JobKey,
    RunKey,
    content_hash,
    dag_of_revision,
    execution_id,
    mailbox_key,
    member_lease_name,
    parse_job_key,
    parse_mailbox_key,
    revision_name,
    scheduled_run_name,
    shard_lease_name,
    shard_of,
    spread_offset_s,
    worker_name,
)
from tests.unit.support.builders import RUN_UID

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
JOBS = st.builds(JobKey, LABELS, st.integers(0, 9999))


@given(JOBS)
def test_a_job_key_reads_back_as_it_was_written(job: JobKey) -> None:
    assert parse_job_key(str(job)) == job


@pytest.mark.parametrize("text", ["", "load", "load/", "/3", "load/x", "load/-1"])
def test_what_is_no_job_key_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_job_key(text)


@given(LABELS, NAMES, st.uuids().map(str), JOBS)
def test_a_mailbox_key_reads_back_also_when_the_run_has_dots_in_its_name(
    namespace: str, run: str, uid: str, job: JobKey
) -> None:
    key = mailbox_key(RunKey(namespace, run), uid, job)

    assert parse_mailbox_key(str(key)) == key
    assert uid.startswith(key.uid_prefix)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ns/run.12345678/load",
        "ns//load/0",
        "ns/run.12345678/load/0/1",
        "ns/run/load/0",
        "ns/.12345678/load/0",
        "ns/run.1234567/load/0",
        "ns/run.12345678/load/x",
    ],
)
def test_what_is_no_mailbox_key_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_mailbox_key(text)


def test_two_runs_of_one_name_have_different_mailbox_keys() -> None:
    run, job = RunKey("analytics", "etl-1"), JobKey("load", 3)

    assert str(mailbox_key(run, RUN_UID, job)) == "analytics/etl-1.5d9f7c01/load/3"
    assert mailbox_key(run, RUN_UID, job) != mailbox_key(run, "0" * 36, job)


def test_an_execution_id_is_the_same_for_every_attempt_of_a_job_and_no_other() -> None:
    assert execution_id(RUN_UID, JobKey("load", 3)) == f"{RUN_UID}/load/3"


@pytest.mark.parametrize(
    ("dag", "want"),
    [
        (DagKey("analytics", "nightly-etl"), 10),
        (DagKey("default", "nightly-etl"), 6),
        (DagKey("default", "a"), 0),
    ],
)
def test_the_shard_of_a_dag_never_changes_from_one_version_to_the_next(dag: DagKey, want: int) -> None:
    assert shard_of(dag, 16) == want


def test_shards_get_even_shares_of_many_dags() -> None:
    counts = Counter(shard_of(DagKey("default", f"dag-{number}"), 16) for number in range(16_000))

    assert sorted(counts) == list(range(16))
    assert all(850 < count < 1150 for count in counts.values())


@pytest.mark.parametrize(
    ("content", "want"),
    [(b"", "mncl7txa0n"), (b"{}", "lavcnz34qx"), (b'{"tasks":[]}', "12x8hra2aq")],
)
def test_the_hash_of_a_content_never_changes_from_one_version_to_the_next(content: bytes, want: str) -> None:
    assert content_hash(content) == want


@given(st.binary(max_size=50))
def test_a_content_hash_can_stand_in_an_objects_name(content: bytes) -> None:
    assert re.fullmatch("[0-9a-z]{10}", content_hash(content))


@given(LABELS, st.binary(max_size=5))
def test_a_revisions_name_tells_its_dag(dag: str, content: bytes) -> None:
    assert dag_of_revision(revision_name(dag, content_hash(content))) == dag


def test_leases_are_named_after_what_they_are_for() -> None:
    assert shard_lease_name(7) == "fencepost-shard-7"
    assert member_lease_name("operator-0-x2k4q") == "fencepost-member-operator-0-x2k4q"


def test_a_worker_is_named_after_its_pod_and_a_nonce_of_fixed_length() -> None:
    assert worker_name("default-5d9f7c", "x2k4q") == "default-5d9f7c-x2k4q"
    with pytest.raises(ValueError, match="'x2k4' has 4 characters; a worker's nonce has 5"):
        worker_name("default-5d9f7c", "x2k4")


def test_keys_read_as_namespace_and_name() -> None:
    assert (str(RunKey("a", "run")), str(DagKey("a", "dag"))) == ("a/run", "a/dag")


def test_the_spread_of_many_dags_fills_every_second_of_it_in_each_shard() -> None:
    offsets: dict[int, Counter[int]] = defaultdict(Counter)
    for number in range(10_000):
        key = DagKey("analytics", f"etl-{number}")
        offsets[shard_of(key, 4)][spread_offset_s(key, 60)] += 1

    assert all(set(of_shard) == set(range(60)) for of_shard in offsets.values())
    assert max(max(of_shard.values()) for of_shard in offsets.values()) < 80, "about 42 at each second"


@pytest.mark.parametrize("spread_s", [0, 0.5, 1])
def test_a_spread_of_less_than_two_seconds_moves_nothing(spread_s: float) -> None:
    assert spread_offset_s(DagKey("analytics", "etl"), spread_s) == 0


def test_the_offset_of_a_spread_never_changes_with_a_release() -> None:
    assert spread_offset_s(DagKey("analytics", "nightly-etl"), 3600) == 1514


@pytest.mark.parametrize(("slot_s", "want"), [(1_796_040_000, "etl-1796040000"), (60, "etl-0000000060")])
def test_the_run_of_a_scheduled_time_is_named_by_it_in_ten_digits(slot_s: int, want: str) -> None:
    assert scheduled_run_name("etl", slot_s) == want
