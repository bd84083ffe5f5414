"""Time zones by name, from the system's zone data or the tzdata package."""

from functools import lru_cache
from zoneinfo import ZoneInfo

ZONES_CACHED_MAX = 1024


@lru_cache(maxsize=ZONES_CACHED_MAX)
def zone_of(name: str) -> ZoneInfo | None:
    """The zone of an IANA name; None if there is none of this name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
