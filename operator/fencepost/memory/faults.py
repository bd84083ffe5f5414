"""What can go wrong between a client and the server in memory, as values that a test or a simulator hands out.

One hook sees every request before it is carried out, and every event of a watch before it is sent (verb `event`). It
answers None, or what goes wrong with this one. So a watch that lags is a delay on its events, and a watch that is cut
is an error on one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.api.names import Kind
from fencepost.kube.errors import ApiError
from fencepost.memory.identity import Identity


class Request(NamedTuple):
    """One call of a client, or one event on its way to it."""

    identity: Identity
    verb: str
    """get, list, watch, create, update, delete; `event` for an event of a watch."""
    kind: Kind
    namespace: str
    """Empty: all of them, or the kind has none."""
    name: str
    """Empty where the request names no object; of an event the object's."""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, in the order of the fields. To an event only `delay_s` and `error` can happen."""

    delay_s: float = 0.0
    """The request is on its way for so long; it arrives even when its sender has been cancelled meanwhile."""
    error: ApiError | None = None
    """The answer: instead of carrying the request out, unless `carried_out`."""
    carried_out: bool = False
    """The request is carried out, and then `error` takes the place of its answer."""
    answer_delay_s: float = 0.0
    """The answer is on its way for so long."""


Faults = Callable[[Request], Fault | None]
