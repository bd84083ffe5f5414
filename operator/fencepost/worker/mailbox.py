"""What a worker has been given, has started and has answered: the one table of leases on the worker's side.

It is told each version of the mailbox and each end of a job, and says what to do; it does nothing itself. Its law: **a
key is started only under a token above every one seen for it.** A token is remembered as long as its key has an entry,
and then for the next DEPARTED_MAX keys that leave. To run a lease twice, somebody would have to deliver it again after
that many other entries have come and gone here, minutes at least, by a compare-and-swap on a Worker that it has read
since; leaders stop trusting themselves within seconds.

An entry whose token has been seen and whose result is no longer held (it was taken away and came back) is answered as
stopped, never run. A result is held until its entry has gone or carries another token: nobody could accept it then.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.api.codec import decode_entry, encode_result
from fencepost.core.names import MailboxKey, parse_mailbox_key
from fencepost.core.plan_workers import token_of
from fencepost.core.run_state import Entry, Order, Outcome, Result
from fencepost.worker.texts import result_message

DEPARTED_MAX: Final = 10_000
"""Keys without an entry whose last token is remembered; about 2 MB."""

DURATION_MAX_S: Final = 1e9
"""Of a time limit or a grace period; what is no number at all is beyond it too."""


@dataclass(frozen=True, slots=True)
class Start:
    """Run this job now. Any older job of the key has been told to die and must have ended before."""

    key: str
    place: MailboxKey
    entry: Entry


@dataclass(frozen=True, slots=True)
class Stop:
    """End this job in its own time and answer for it: the mailbox asks for it."""

    key: str
    grace_s: float


@dataclass(frozen=True, slots=True)
class Kill:
    """End this job at once and say nothing: its lease is no longer in the mailbox, somebody else may have the next."""

    key: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry not even the token of which can be read, so that there is nothing to answer; said once."""

    key: str
    text: str


Action = Start | Stop | Kill | Unreadable


class Mailbox:
    """The leases of one worker process. Not for several threads."""

    def __init__(self, worker: str, slots: int) -> None:
        self.draining = False
        """Set it to hand back whatever has not been started."""
        self.leaving = False
        """Set it, when nothing runs any more, to end with the write that answers for the last entry."""
        self._worker = worker
        self._slots = slots
        self._entries: dict[str, str] = {}
        self._tokens: dict[str, int] = {}
        self._departed: OrderedDict[str, int] = OrderedDict()
        self._running: dict[str, int] = {}
        self._results: dict[str, Result] = {}
        self._texts: dict[str, str] = {}
        """The results as they are sent: they are looked at many times for each that comes."""

    def read(self, entries: Mapping[str, object]) -> list[Action]:
        """A newer version of `spec.leases`: what to do now, in this order."""
        actions: list[Action] = [Kill(key) for key in self._entries if key not in entries and self._depart(key)]
        changed = [(key, str(text)) for key, text in entries.items() if self._entries.get(key) != str(text)]
        self._entries = {key: str(text) for key, text in entries.items()}
        for key, text in changed:
            actions += self._consider(key, text)
        return actions

    def end(self, key: str, result: Result) -> None:
        """A job that was started has ended; the result is kept if anybody still wants it."""
        if self._running.get(key) == result.token:
            del self._running[key]
        self._answer(key, result)

    def results(self) -> dict[str, str]:
        """What `Worker.status.results` should hold: the results under the tokens that the mailbox now has."""
        return {
            key: self._texts[key]
            for key, result in self._results.items()
            if _token_or_none(self._entries[key]) == result.token
        }

    def answers_for_all(self, results: Mapping[str, str]) -> bool:
        """Whether these results leave no entry unanswered; one that not even has a token cannot be answered."""
        return all(key in results or _token_or_none(text) is None for key, text in self._entries.items())

    def spoil(self, key: str, fact: str) -> bool:
        """The API server will not have this result. Its texts give way to the fact; False if it had been left bare
        already, and has now been given up."""
        result = self._results[key]
        self._drop(key)
        if result.message == fact:
            return False
        outcome = Outcome.FAILED if result.outcome is Outcome.SUCCEEDED else result.outcome
        self._hold(
            key,
            Result(result.token, outcome, result.exit_code, result.started_at_s, result.ended_at_s, message=fact),
        )
        return True

    def _depart(self, key: str) -> bool:
        """Forget the key as far as is safe; True if a job of it is still running."""
        self._drop(key)
        if key in self._tokens:
            self._departed[key] = self._tokens.pop(key)
            if len(self._departed) > DEPARTED_MAX:
                self._departed.popitem(last=False)
        return key in self._running

    def _consider(self, key: str, text: str) -> Iterable[Action]:
        """A new or changed entry."""
        token = _token_or_none(text)
        if token is None:
            return [Unreadable(key, text)]
        if key in self._departed:
            self._tokens[key] = self._departed.pop(key)
        running = self._running.get(key)
        if token == running:
            return self._reconsider(key, text)
        actions: list[Action] = [] if running is None else [Kill(key)]
        if token <= self._tokens.get(key, -1):
            self._answer_again(key, token)
            return actions
        self._tokens[key] = token
        return actions + self._take_up(key, token, text)

    def _take_up(self, key: str, token: int, text: str) -> list[Action]:
        """An entry with a token that is new."""
        self._drop(key)
        try:
            place = parse_mailbox_key(key)
            entry = _read_entry(text)
            if not entry.run_uid.startswith(place.uid_prefix):
                raise ValueError(f"it is for the run with UID {entry.run_uid}, its key for another one")
        except ValueError as error:
            self._answer(key, _never_started(token, Outcome.INVALID, f"the entry of {key} cannot be read: {error}"))
            return []
        if entry.order is Order.STOP:
            self._answer(key, _never_started(token, Outcome.STOPPED, "stopped before it was started"))
            return []
        if refusal := self._refusal():
            self._answer(key, _never_started(token, Outcome.HANDED_BACK, refusal))
            return []
        self._running[key] = token
        return [Start(key, place, entry)]

    def _refusal(self) -> str:
        """Why nothing can be started now; empty if it can."""
        if self.draining:
            return f"worker {self._worker} is draining"
        # A job whose entry has gone is dying and holds nobody's slot.
        if sum(key in self._entries for key in self._running) >= self._slots:
            return f"all {self._slots} slots of worker {self._worker} are taken"
        return ""

    def _reconsider(self, key: str, text: str) -> list[Action]:
        """A changed entry under the token that is running: only a request to stop means anything."""
        try:
            entry = _read_entry(text)
        except ValueError:
            return [Unreadable(key, text)]
        return [Stop(key, entry.grace_s)] if entry.order is Order.STOP else []

    def _answer_again(self, key: str, token: int) -> None:
        held = self._results.get(key)
        if held is None or held.token != token:
            fact = f"token {token} has been here before and its result is no longer known; it is not run again"
            self._answer(key, _never_started(token, Outcome.STOPPED, fact))

    def _answer(self, key: str, result: Result) -> None:
        """Hold a result, unless the mailbox has no entry for it; one that is garbled for the moment may be repaired."""
        if key in self._entries and _token_or_none(self._entries[key]) in (None, result.token):
            self._hold(key, result)

    def _hold(self, key: str, result: Result) -> None:
        self._results[key], self._texts[key] = result, encode_result(result)

    def _drop(self, key: str) -> None:
        self._results.pop(key, None)
        self._texts.pop(key, None)


def _token_or_none(text: str) -> int | None:
    try:
        return token_of(text)
    except ValueError:
        return None


def _read_entry(text: str) -> Entry:
    """`decode_entry`, and durations that a timer can be set to."""
    entry = decode_entry(text)
    for duration_s in (entry.grace_s, entry.timeout_s or 0.0):
        if not 0 <= duration_s <= DURATION_MAX_S:
            raise ValueError(f"{duration_s:g} s is no duration of a job; 0 to {DURATION_MAX_S:g} are allowed")
    return entry


def _never_started(token: int, outcome: Outcome, message: str) -> Result:
    return Result(token, outcome, exit_code=None, started_at_s=None, ended_at_s=None, message=result_message(message))
