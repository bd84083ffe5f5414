"""Ctrl-C: the first one asks, the second one insists. A SIGTERM, or a terminal that is closed, counts as one."""

import asyncio
import signal
from types import TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts signals from entering to leaving, in the main thread's loop."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.insisted = asyncio.Event()
        # Who started us under nohup wants us to live on without a terminal.
        self._signals = [each for each in _SIGNALS if each is not signal.SIGHUP or _is_heard(each)]

    def __enter__(self) -> "Interrupts":
        for number in self._signals:
            asyncio.get_running_loop().add_signal_handler(number, self._count)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._signals:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _count(self) -> None:
        (self.insisted if self.asked.is_set() else self.asked).set()


def _is_heard(number: signal.Signals) -> bool:
    return signal.getsignal(number) is not signal.SIG_IGN
