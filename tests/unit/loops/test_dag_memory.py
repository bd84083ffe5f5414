"""What a leader remembers of a DAG does not grow with the time for which it leads."""

from collections import Counter

from fencepost.core.intents import Authority
from fencepost.core.plan_dag import Fate
from fencepost.loops.dag_memory import FIRED_REMEMBERED_MAX, DagMemory


def test_of_the_slots_that_have_fired_the_latest_few_are_remembered() -> None:
    memory = DagMemory(Authority(0, 1), "uid", 0.0, 0.0, "", 0.0, Counter(), "")
    for slot_s in range(60, 60 * 1000, 60):
        memory.fired_slot(slot_s, f"etl-{slot_s}", f"uid-{slot_s}", Fate.FIRED)
    assert len(memory.fired) == FIRED_REMEMBERED_MAX <= 10
    assert memory.fired[int(memory.mark_s)] == f"uid-{int(memory.mark_s)}", "who fired the one at the mark is known"
    assert memory.counts[Fate.FIRED] == 999
