"""The laws that hold whoever writes, kept by CEL rules in the CRDs and the policy on runs: a breach is answered 422.

One function a law, and a table from kind to laws. The contract suite breaks each of them on the real server as well.
Not here is the rest of the schemas: types, limits, defaults and the pruning of unknown fields.
"""

import re

from fencepost.api.names import DAG_RUNS, DAGS, DEAD_LETTERS, SHARD_LABEL, WORKERS, Kind
from fencepost.api.times import parse_time
from fencepost.core.names import SHARDS_DEFAULT, scheduled_run_name
from fencepost.core.phases import RunPhase
from fencepost.core.run_state import Trigger
from fencepost.core.worker_record import MAILBOX_ENTRIES_MAX
from fencepost.memory.writes import NOTHING, Law, Write, label_of

FINISHED = frozenset(phase.value for phase in RunPhase if phase.finished)
MANUAL = Trigger.MANUAL.value
BACKFILL = Trigger.BACKFILL.value
FIXED = {"dag": None, "trigger": MANUAL, "params": None}
"""Parts of a run's spec that never change, with what they are when left out."""
SHARDS = frozenset(str(shard) for shard in range(SHARDS_DEFAULT))
OVERRIDE_KEY = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(/(0|[1-9][0-9]{0,4}))?")
FIXED_ONCE_SET = ("dagUID", "revision", "scheduledTime")


def run_counters_never_fall(write: Write) -> str | None:
    """A write planned on a state that has been left behind would take tokens or epochs back."""
    old, new = write.old_status, write.new_status
    if old is None or new is None:
        return None
    for name in ("epoch", "leaseCounter", "round"):
        if new[name] < old[name]:
            return f"status.{name} never decreases: it is {old[name]}, not {new[name]}; read again"
    return None


def run_status_stays(write: Write) -> str | None:
    """The status is the record of every lease."""
    if write.old_status is not None and write.new_status is None:
        return "status cannot be removed, it is the record of every lease; to be rid of the run, delete it"
    return None


def finished_run_rests(write: Write) -> str | None:
    """Nothing more happens to a run that has ended, unless a person asks for another round."""
    old, new = write.old_status, write.new_status
    if old is None or new is None or old["phase"] not in FINISHED or new == old or new["round"] > old["round"]:
        return None
    return "a finished run's status changes only in the write that raises status.round to spec.round"


def run_takes_no_round_that_nobody_asked_for(write: Write) -> str | None:
    """Another round is a person's wish."""
    if write.new_status is not None and write.new_status["round"] > write.new_spec.get("round", 0):
        return "status.round goes no further than spec.round"
    return None


def run_finishes_without_leases(write: Write) -> str | None:
    """A lease that is outstanding at the end could never be settled."""
    status = write.new_status
    if status is not None and status["phase"] in FINISHED and status.get("leases"):
        return "a run cannot finish while a lease is outstanding; settle or take back status.leases first"
    return None


def run_spec_is_fixed(write: Write) -> str | None:
    """What a run is, is decided once; what the operator fills in, it fills in once."""
    if write.old is None:
        return None
    old, new = write.old_spec, write.new_spec
    for name, default in FIXED.items():
        if old.get(name, default) != new.get(name, default):
            return f"spec.{name} cannot be changed; make another run"
    for name in FIXED_ONCE_SET:
        if name in old and old[name] != new.get(name):
            return f"spec.{name} cannot be changed once it is set; make another run"
    return None


def run_is_asked_again_in_turn(write: Write) -> str | None:
    """A round begins when the one before has ended, so that no wish is passed over."""
    if write.old is None or write.old_spec == write.new_spec:
        return None
    old_round, new_round = write.old_spec.get("round", 0), write.new_spec.get("round", 0)
    finished = write.old_status is not None and write.old_status["phase"] in FINISHED
    taken_up = write.old_status is not None and write.old_status["round"] == old_round
    if new_round < old_round:
        return "spec.round only grows; what has been asked for is not taken back"
    if new_round == old_round and write.old_spec.get("cancel") and not write.new_spec.get("cancel"):
        return "spec.cancel is taken back only in a write that raises spec.round"
    if new_round == old_round and finished and write.old_spec.get("overrides") != write.new_spec.get("overrides"):
        return "a finished run's overrides change only in a write that raises spec.round"
    if new_round > old_round and not (finished and taken_up and new_round == old_round + 1):
        return "spec.round rises by one, when the run has finished and status.round has reached it"
    if new_round > old_round and write.new_spec.get("cancel"):
        return "a cancelled run is not run again; set spec.cancel to false in the same change"
    return None


def rerun_is_of_its_round(write: Write) -> str | None:
    """What a round runs again is said when it is asked for."""
    spec, rerun = write.new_spec, write.new_spec.get("rerun")
    if write.old is None and (spec.get("round", 0) or rerun):
        return "a run begins with round 0; run it again once it has finished"
    if rerun is None or rerun == write.old_spec.get("rerun"):
        return None
    if rerun["round"] != spec.get("round", 0) or spec.get("round", 0) == write.old_spec.get("round", 0):
        return "rerun changes only in the write that raises spec.round, and names that round"
    return None


def overrides_hold_now(write: Write) -> str | None:
    """A mark for a round that nobody has asked for would lie in wait."""
    for job, override in (write.new_spec.get("overrides") or NOTHING).items():
        if not OVERRIDE_KEY.fullmatch(job):
            return f"the key of an override is <task>/<index>, or <task> for all its jobs, not {job}"
        if override.get("round", 0) > write.new_spec.get("round", 0):
            return f"an override holds for the present round (spec.round) and not for a later one ({job})"
    return None


def run_of_a_slot_is_complete_and_named_by_it(write: Write) -> str | None:
    """The name is the unique index on DAG and scheduled time."""
    spec = write.new_spec
    trigger = spec.get("trigger", MANUAL)
    if write.old is not None or trigger == MANUAL:
        return None
    if trigger != BACKFILL and write.new_status is None:
        return "a scheduled run is created with its status: the epoch in it is what is fenced"
    if not all(name in spec for name in (("scheduledTime",) if trigger == BACKFILL else FIXED_ONCE_SET)):
        return "a run of a slot names its scheduledTime, and a scheduled one its dagUID and revision"
    if write.key.name != scheduled_run_name(spec.get("dag", ""), int(parse_time(spec["scheduledTime"]))):
        return "a slot's run is named <dag>-<Unix seconds of its scheduledTime, ten digits>"
    return None


def labelled_run_has_a_leader(write: Write) -> str | None:
    """This one is kept by the epoch fence's policy, which answers 422 where it misses the shard's Lease."""
    shard = label_of(write.new, SHARD_LABEL)
    if shard in SHARDS and write.shard_epoch(shard) is None:
        return f"shard {shard} has no Lease: nobody leads it, so no write can be its leader's"
    return None


def mark_never_falls(write: Write) -> str | None:
    """Else a slot whose run has been deleted would fire again."""
    old = (write.old_status or NOTHING).get("lastScheduledTime")
    new = (write.new_status or NOTHING).get("lastScheduledTime")
    if old is not None and (new is None or parse_time(new) < parse_time(old)):
        return f"status.lastScheduledTime never falls: it is {old}, not {new}; read again"
    return None


def letter_tells_what_has_happened(write: Write) -> str | None:
    """A dead letter is a record; the wish beside it only grows."""
    if write.old is None:
        return None
    if write.new_spec.get("job") != write.old_spec.get("job"):
        return "spec.job is what has happened: write only spec.replay"
    if write.new_spec.get("replay", 0) < write.old_spec.get("replay", 0):
        return "spec.replay only grows: each step has the job run once more"
    return None


def worker_registers_empty_and_unfenced(write: Write) -> str | None:
    """A mailbox that arrives with the worker would be nobody's record."""
    spec = write.new_spec
    if write.old is None and (spec.get("leases") or spec.get("fenced")):
        return "a worker registers with an empty mailbox and unfenced; leave out spec.leases and spec.fenced"
    return None


def worker_stays_what_it_is(write: Write) -> str | None:
    """Pool and slots are decided when it registers."""
    old, new = write.old_spec, write.new_spec
    if write.old is not None and any(old.get(name) != new.get(name) for name in ("pool", "slots")):
        return "spec.pool and spec.slots are fixed when a worker registers; start another one"
    return None


def worker_keeps_no_more_than_it_has(write: Write) -> str | None:
    """A mark beyond its slots would shut all but critical jobs out, and count for other workers' parts besides."""
    if write.new_spec.get("reservedSlots", 0) > write.new_spec["slots"]:
        return "a worker keeps no more slots than it has; lower spec.reservedSlots"
    return None


def fenced_stays_fenced(write: Write) -> str | None:
    """Jobs have been given to others on the strength of it."""
    if write.old_spec.get("fenced") and not write.new_spec.get("fenced"):
        return "spec.fenced stays true once it is; a process that was given up comes back under another name"
    return None


def fenced_worker_says_nothing(write: Write) -> str | None:
    """The fence itself: no status write of a fenced worker lands."""
    if write.old is not None and write.new_spec.get("fenced") and write.new_status != write.old_status:
        return "this worker is fenced: its jobs may have been given to others, and nothing that it says counts any more"
    return None


def result_carries_the_token_of_its_entry(write: Write) -> str | None:
    """A result for a lease that was taken back, or given again, comes too late."""
    entries = write.new_spec.get("leases") or NOTHING
    old_results = (write.old_status or NOTHING).get("results") or NOTHING
    for key, result in ((write.new_status or NOTHING).get("results") or NOTHING).items():
        if old_results.get(key) != result and (key not in entries or _token(entries[key]) != _token(result)):
            return (
                f"a new or changed result must carry the token of the entry with its key in spec.leases ({key});"
                " the lease it answers has been taken back"
            )
    return None


def entry_tokens_never_fall(write: Write) -> str | None:
    """A delivery that was held up must not replace a later one."""
    old_entries = write.old_spec.get("leases") or NOTHING
    for key, entry in (write.new_spec.get("leases") or NOTHING).items():
        old_entry = old_entries.get(key, entry)
        if old_entry != entry and int(_token(entry)) < int(_token(old_entry)):
            return f"the token of an entry never decreases ({key}); this delivery comes too late"
    return None


def mailbox_is_small(write: Write) -> str | None:
    """The server looks at each entry, so there are few."""
    entries = len(write.new_spec.get("leases") or NOTHING)
    results = len((write.new_status or NOTHING).get("results") or NOTHING)
    if max(entries, results) > MAILBOX_ENTRIES_MAX:
        return f"a mailbox has {MAILBOX_ENTRIES_MAX} entries at most; deliver the rest later"
    return None


LAWS: dict[Kind, tuple[Law, ...]] = {
    DAGS: (mark_never_falls,),
    DAG_RUNS: (
        run_status_stays,
        run_counters_never_fall,
        finished_run_rests,
        run_takes_no_round_that_nobody_asked_for,
        run_finishes_without_leases,
        run_spec_is_fixed,
        run_is_asked_again_in_turn,
        rerun_is_of_its_round,
        overrides_hold_now,
        run_of_a_slot_is_complete_and_named_by_it,
        labelled_run_has_a_leader,
    ),
    DEAD_LETTERS: (letter_tells_what_has_happened,),
    WORKERS: (
        worker_registers_empty_and_unfenced,
        worker_stays_what_it_is,
        worker_keeps_no_more_than_it_has,
        fenced_stays_fenced,
        fenced_worker_says_nothing,
        result_carries_the_token_of_its_entry,
        entry_tokens_never_fall,
        mailbox_is_small,
    ),
}
"""Asked about every create and update of the kind, subresources included."""


def _token(text: str) -> str:
    return text.partition(" ")[0]
