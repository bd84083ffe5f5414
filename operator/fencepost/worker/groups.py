"""Process groups: a job's processes as one thing, as far as none of them has left."""

import contextlib
import os


def signal_group(group: int, number: int) -> bool:
    """Send a signal to all members (0: to nobody, just ask); False if there is none, zombies counted, that we may
    signal."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def anyone_lives_in(group: int) -> bool:
    """Whether a member is more than a zombie: when those are reaped, and by whom, is not ours to say. Looks at every
    process of the machine."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                state, _, found = file.read().rpartition(b")")[2].split()[:3]
                if int(found) == group and state not in (b"Z", b"X"):
                    return True
    return False


def reap_adopted(group: int) -> None:
    """As a container's first process we have become the parent of what was left of a group, and have to reap it."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG) != (0, 0):
            pass
