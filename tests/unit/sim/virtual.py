"""An event loop whose time is virtual, and machines in it that can be frozen, killed, and have clocks of their own.

The trick is whose a callback is. Each machine's code runs under a context variable that names the machine; tasks,
futures and timers inherit it as they inherit any context. So whatever comes due is known to be some machine's, and is
kept back while that machine is frozen, and dropped once it is dead: at the very next `await`, wherever that is. What
belongs to no machine (the network, the API server, the checkers) always runs.

Where a machine asks the loop for the time it is told its own: a machine has a speed, and may have lost time while it
stood still, as a virtual machine does that is paused from outside. So timeouts and sleeps drift with its clock.

Nothing here waits for anything real: when nothing is due, time moves on to the next timer.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

NOON_S: Final = 1_796_040_000
"""2026-11-30T12:00:00Z: when most simulations begin; a whole minute."""
SPIN_MAX: Final = 20_000
"""More turns of the loop than that within one second are code that has forgotten to wait."""
TASKS_LOOK: Final = 1000
TICK_S: Final = 1e-6


class Machine:
    """What can be frozen and killed: one process, or the virtual machine that it runs on. Its own clock, too."""

    def __init__(
        self, loop: "VirtualLoop", name: str, *, speed: float = 1.0, wall_offset_s: float = 0.0, synced: bool = False
    ) -> None:
        self.name = name
        self.speed = speed
        """Of its clocks: 1.05 gains three seconds a minute."""
        self.wall_offset_s = wall_offset_s
        self.synced = synced
        """Somebody keeps its wall clock going at the right speed; not its steady clock."""
        self.dead = False
        self.frozen = False
        self.clock_stopped = False
        """It has stood still once without its clock going on: it may think that it is trusted when it is not."""
        self.held: list[Handle | Timer] = []
        """What has come due while it is frozen, or since it is dead: then it waits for the end."""
        self.context: Context = copy_context()
        self.context.run(OWNER.set, self)
        self.tasks: list[asyncio.Task[Any]] = []
        """Those that may still be under way: kept, so that nothing of the dead is tidied up at some odd moment."""
        self._loop = loop
        loop.machines.append(self)
        self.lost_s = 0.0
        """What its steady clock has not seen of the time."""
        self._frozen_at_s = 0.0

    # As `base.clock.Clock`.

    def now_s(self) -> float:
        """The wall clock."""
        return self._loop.begins_s + (self._loop.now_s if self.synced else self.steady_s()) + self.wall_offset_s

    def steady_s(self) -> float:
        """Since the simulation began, as this machine counts."""
        return (self._loop.now_s - self.lost_s) * self.speed

    def call_later(self, seconds: float, act: Callable[[], None]) -> "Timer":
        return self._loop.call_later(seconds, act)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0.0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.Future(loop=self._loop)
        timer = self._loop.call_later(seconds, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    # From outside.

    def local_s(self, true_s: float) -> float:
        """A moment as this machine's steady clock shows it."""
        return (true_s - self.lost_s) * self.speed

    def set_wall(self, error_s: float) -> None:
        """Somebody sets the wall clock, so far from the truth."""
        self.wall_offset_s += error_s - (self.now_s() - self._loop.begins_s - self._loop.now_s)

    @property
    def wall_error_s(self) -> float:
        """How far the wall clock is from the truth."""
        return abs(self.now_s() - self._loop.begins_s - self._loop.now_s)

    def true_s(self, local_s: float) -> float:
        """When the machine's steady clock will show this, if it goes on."""
        return local_s / self.speed + self.lost_s

    def run(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Let the machine do something."""
        return self._loop.create_task(work, name=f"{self.name}: {name}", context=self.context)

    def call(self, act: Callable[[], T]) -> T:
        """Do something in the machine's name, at once."""
        return self.context.run(act)

    def freeze(self) -> None:
        """It does nothing any more; what comes due is kept back."""
        if not self.frozen:
            self.frozen, self._frozen_at_s = True, self._loop.now_s

    def thaw(self, *, clock_went_on: bool = True) -> None:
        """It goes on, with all that was kept back. A clock that did not go on has lost the time."""
        if not self.frozen or self.dead:
            return
        self.frozen = False
        held, self.held = self.held, []
        if clock_went_on:
            self._loop.release(held)
        else:
            lost_s = self._loop.now_s - self._frozen_at_s
            self.clock_stopped = True
            self.lost_s += lost_s
            if not self.synced:
                self.wall_offset_s += lost_s * self.speed  # which is set right at once, as hosts do
            self._loop.postpone(self, held, lost_s)

    def kill(self) -> None:
        """SIGKILL, or the machine is gone."""
        self.dead = True


def _wake(sleeper: "asyncio.Future[None]") -> None:
    if not sleeper.done():
        sleeper.set_result(None)


OWNER: ContextVar[Machine | None] = ContextVar("OWNER", default=None)


class Handle(asyncio.Handle):
    """A callback, and whose it is.

    Made and cancelled without the detours that asyncio takes: there are twenty thousand of them in a simulation.
    """

    __slots__ = ("owner",)

    def __init__(self, owner: Machine | None, callback: Any, args: Any, context: Context) -> None:
        self._context = context
        self._callback = callback
        self._args = args
        self._cancelled = False
        self.owner = owner

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()

    def __repr__(self) -> str:
        return _told(self)


class Timer(asyncio.TimerHandle):
    """A callback for later, and whose it is. It is passed over when it comes due after it was cancelled."""

    __slots__ = ("owner", "true_s")

    def __init__(
        self, owner: Machine | None, true_s: float, when: float, callback: Any, args: Any, context: Context
    ) -> None:
        self._context = context
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._when = when
        self.owner = owner
        self.true_s = true_s

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()

    def __repr__(self) -> str:
        return _told(self)


def _told(handle: Handle | Timer) -> str:
    name = getattr(handle._callback, "__qualname__", repr(handle._callback))
    return f"{name} of {'the world' if handle.owner is None else handle.owner.name}"


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs what is due, in order, then moves time on."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        """True time since the beginning."""
        self.begins_s = NOON_S
        """Unix seconds of that."""
        self.turns = 0
        self.turns_max = 1_000_000
        """More of them, and the code spins, however slowly."""
        self._due: deque[Handle | Timer] = deque()
        self._later: list[tuple[float, int, Timer]] = []
        self._count = 0
        self._spins = 0
        self._ending = False
        self.machines: list[Machine] = []
        self.failure: Exception | None = None
        """Set it to end the loop before anything else happens."""
        self.set_exception_handler(self._complain)
        self.set_task_factory(_owned_task)
        self.complaints: list[str] = []
        """Exceptions that nobody has taken."""

    # What asyncio asks of a loop.

    def time(self) -> float:
        owner = OWNER.get()
        return self.now_s if owner is None else owner.local_s(self.now_s)

    get_debug = staticmethod(bool)  # no; every future asks, and asks this without a frame

    def call_soon(self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> Handle:
        if context is None:
            context = copy_context()
        handle = Handle(context.get(OWNER), callback, args, context)
        self._due.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Timer:
        if context is None:
            context = copy_context()
        owner = OWNER.get()
        if owner is not context.get(OWNER):
            return self.call_at(self.time() + delay, callback, *args, context=context)
        if owner is None:
            true_s = when = self.now_s + delay
        else:  # `steady_s` and `true_s` of the owner, without a frame for each: most timers are set here
            when = (self.now_s - owner.lost_s) * owner.speed + delay
            true_s = when / owner.speed + owner.lost_s + TICK_S
        self._count += 1
        timer = Timer(owner, true_s, when, callback, args, context)
        heapq.heappush(self._later, (true_s, self._count, timer))
        return timer

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Timer:
        if context is None:
            context = copy_context()
        owner = context.get(OWNER)
        # A timer that came due a rounding error too early would be set again and again at the same moment.
        true_s = when if owner is None else owner.true_s(when) + TICK_S
        return self._schedule(Timer(owner, true_s, when, callback, args, context))

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        pass  # a dead machine's, or the end

    def _run_once(self) -> None:
        """As many turns as there are: asyncio would ask for each, and has nothing to do in between."""
        due, take = self._due, self._due.popleft
        while not self._stopping:  # type: ignore[attr-defined]  # asyncio's own
            if self.failure is not None:
                raise self.failure
            if not due:
                self._move_on()
            self.turns += 1
            self._spins += 1
            if self._spins > SPIN_MAX or self.turns > self.turns_max:
                raise RuntimeError(f"at {self.now_s:.3f} s the code spins: {due[0]!r}")
            for _ in range(len(due)):
                handle = take()
                if handle._cancelled:
                    continue
                owner = handle.owner
                if owner is not None and (owner.dead or owner.frozen) and not self._ending:
                    owner.held.append(handle)
                    continue
                try:
                    handle._context.run(handle._callback, *handle._args)
                except Exception as error:
                    if owner is None and not self._ending:
                        raise  # the world's own, such as a checker's: nobody's request is to hang on it
                    self._complain(self, {"message": f"{handle!r} has failed", "exception": error})

    # For machines.

    def release(self, held: list[Handle | Timer]) -> None:
        """What was kept back is due now."""
        self._due.extend(held)

    def postpone(self, machine: Machine, held: list[Handle | Timer], lost_s: float) -> None:
        """What was kept back is due now, but timers, those that wait too, are due so much later."""
        pending = [timer for _, _, timer in self._later if timer.owner is machine]
        self._later = [entry for entry in self._later if entry[2].owner is not machine]
        heapq.heapify(self._later)
        for handle in (*held, *pending):
            if isinstance(handle, Timer):
                handle.true_s += lost_s
                self._schedule(handle)
            else:
                self._due.append(handle)

    def at(self, true_s: float, act: Callable[..., object], *args: Any) -> Timer:
        """Let the world do something at a moment of true time."""
        self._count += 1
        timer = Timer(None, true_s, true_s, act, args, NOBODY)
        heapq.heappush(self._later, (true_s, self._count, timer))
        return timer

    def after(self, seconds: float, act: Callable[..., object], *args: Any) -> Timer:
        """Let the world do something so much later."""
        return self.at(self.now_s + seconds, act, *args)

    def end(self) -> None:
        """End every task, whoever's it is, dead machines' too; nothing is heard of them any more."""
        self._ending, self.failure = True, None
        self.set_exception_handler(lambda *_: None)
        try:
            for _ in range(20):
                tasks = [task for task in asyncio.all_tasks(self) if not task.done()]
                if not tasks:
                    break
                self._spins = self.turns = 0
                for task in tasks:
                    task.cancel()
                for machine in self.machines:  # a task that was about to be woken is woken, to be cancelled
                    self._due.extend(each for each in machine.held if isinstance(each, Handle))
                    machine.held.clear()
                self.run_until_complete(_some_turns())
        finally:
            self.close()

    def _schedule(self, timer: Timer) -> Timer:
        self._count += 1
        heapq.heappush(self._later, (timer.true_s, self._count, timer))
        return timer

    def _move_on(self) -> None:
        later = self._later
        while later and later[0][2]._cancelled:
            heapq.heappop(later)
        if not later:
            raise RuntimeError("nothing will ever happen any more")
        if later[0][0] > self.now_s:
            if int(later[0][0]) > int(self.now_s):
                self._spins = 0
            self.now_s = later[0][0]
        while later and later[0][0] <= self.now_s:
            timer = heapq.heappop(later)[2]
            if not timer._cancelled:
                self._due.append(timer)

    def _complain(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")


async def _some_turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def _owned_task(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    """A task that its machine keeps, as a task that waits for ever is kept by nobody else."""
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context, **options)
    owner = OWNER.get() if context is None else context.get(OWNER)
    if owner is not None:
        owner.tasks.append(task)
        if len(owner.tasks) % TASKS_LOOK == 0:
            owner.tasks = [task for task in owner.tasks if not task.done()]
    return task


NOBODY = copy_context()
"""The context of the world; to be entered by the loop alone."""
