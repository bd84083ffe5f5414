"""Reads that are shared: one request however many ask, bounded memory, failures kept for nobody."""

import asyncio

import pytest

from fencepost.worker.reads import SharedReads


class Source:
    """Something that is read, slowly."""

    def __init__(self, size: int = 1) -> None:
        self.reads = 0
        self.size = size
        self.ready = asyncio.Event()
        self.error: Exception | None = None

    async def read(self) -> tuple[str, int]:
        self.reads += 1
        await self.ready.wait()
        if self.error:
            raise self.error
        return "value", self.size


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_those_who_ask_at_the_same_time_share_one_read() -> None:
    reads: SharedReads[str] = SharedReads(10, 100)
    source = Source()
    asking = [asyncio.create_task(reads.get("a", source.read)) for _ in range(5)]
    await settle()
    source.ready.set()
    assert await asyncio.gather(*asking) == ["value"] * 5
    assert await reads.get("a", source.read) == "value"
    assert source.reads == 1


async def test_one_who_gives_up_takes_the_answer_from_nobody() -> None:
    reads: SharedReads[str] = SharedReads(10, 100)
    source = Source()
    first, second = (asyncio.create_task(reads.get("a", source.read)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    source.ready.set()
    assert await second == "value"
    assert source.reads == 1


async def test_a_failure_reaches_all_who_wait_and_is_not_kept() -> None:
    reads: SharedReads[str] = SharedReads(10, 100)
    source = Source()
    source.error = ValueError("broken")
    source.ready.set()
    both = await asyncio.gather(reads.get("a", source.read), reads.get("a", source.read), return_exceptions=True)
    assert list(both) == [source.error] * 2
    source.error = None
    assert await reads.get("a", source.read) == "value"


@pytest.mark.parametrize(("count_max", "bytes_max"), [(2, 100), (10, 20)])
async def test_the_least_recently_used_goes_first(count_max: int, bytes_max: int) -> None:
    reads: SharedReads[str] = SharedReads(count_max, bytes_max)
    source = Source(size=10)
    source.ready.set()
    for key in ("a", "b", "a", "c"):
        await reads.get(key, source.read)
    assert source.reads == 3
    await reads.get("a", source.read)
    assert source.reads == 3, "a was used last but one"
    await reads.get("b", source.read)
    assert source.reads == 4, "b had to go"


async def test_what_is_too_large_to_keep_beside_others_is_still_given() -> None:
    reads: SharedReads[str] = SharedReads(10, 20)
    source = Source(size=1000)
    source.ready.set()
    assert await reads.get("a", source.read) == "value"
    assert await reads.get("b", source.read) == "value"


async def test_a_read_that_nobody_waits_for_any_more_ends_with_the_worker() -> None:
    reads: SharedReads[str] = SharedReads(10, 100)
    source = Source()
    asking = asyncio.create_task(reads.get("a", source.read))
    await settle()
    await reads.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
