"""Times and durations as text: RFC 3339 in UTC for moments, Gateway API syntax (`1h30m`) for spans."""

import re
from datetime import UTC, datetime
from functools import lru_cache

TIMES_KEPT = 4096
"""The same moments are read and written again with each write of an object that tells of them."""
_DURATION = re.compile(r"^(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?(?:(\d{1,5})ms)?$")


def format_time(unix_s: float, *, millis: bool = False) -> str:
    """`2026-11-30T13:00:00Z`, or with milliseconds."""
    return _formatted(unix_s, "milliseconds" if millis else "seconds")


def format_micro_time(unix_s: float) -> str:
    """As Kubernetes wants it in a Lease: six digits after the point. For people; nobody reckons with it."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str) -> float:
    """Unix seconds of an RFC 3339 time; ValueError if it is none or has no offset."""
    return _parsed(text)


@lru_cache(TIMES_KEPT)
def _formatted(unix_s: float, timespec: str) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


@lru_cache(TIMES_KEPT)
def _parsed(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    return moment.timestamp()


def parse_duration(text: str) -> float:
    """Seconds of a duration such as `90s` or `1h30m`; ValueError if it is none."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 10m or 1h30m")
    hours, minutes, seconds, millis = (int(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + millis / 1000


def format_duration(seconds: float) -> str:
    """The inverse, in whole seconds, for people: `0s`, `12s`, `1h0m5s`."""
    whole = int(max(0.0, seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
