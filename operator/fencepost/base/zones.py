"""Time zones by name, from the system's zone data or the tzdata package."""

import re
from functools import lru_cache
from zoneinfo import ZoneInfo

ZONES_CACHED_MAX = 1024
ZONE_LENGTH_MAX = 64
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_NO_ZONES = ("right/", "posix/", "localtime", "posixrules", "Factory")
"""Files beside the zones: other copies of them, some counting leap seconds, and whatever this machine is set to."""


@lru_cache(maxsize=ZONES_CACHED_MAX)
def zone_of(name: str) -> ZoneInfo | None:
    """The zone of an IANA name; None if there is none of this name."""
    if len(name) > ZONE_LENGTH_MAX or not _ZONE_NAME.fullmatch(name) or name.startswith(_NO_ZONES):
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
