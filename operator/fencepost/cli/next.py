"""`fencepost next`: the coming times of a schedule, one RFC 3339 time with its zone's offset a line.

The same functions decide here and in the operator, so what this prints is what fires. Exit code 0, also if there is no
time to print (said on stderr), or 2 with the reason on stderr. The clock comes in as `now`, and is asked only if
`--from` is missing.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from zoneinfo import ZoneInfo, available_timezones

from fencepost.base.zones import ZONE_LENGTH_MAX, zone_of
from fencepost.core.cron import Cron, Gap, Overlap, parse_cron
from fencepost.core.cron_walls import never_fires
from fencepost.core.problems import Problem
from fencepost.core.schedule import Schedule
from fencepost.core.schedule_spec import ScheduleSpec
from fencepost.core.zones import SEARCH_YEARS

_DESCRIPTION = (
    "Print the coming times of a schedule, one RFC 3339 time with the zone's offset a line. Exit code 2: refused."
)
EXIT_FINE = 0
EXIT_REFUSED = 2
COUNT_DEFAULT = 5
COUNT_MAX = 10_000
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the command and its options."""
    parser = subparsers.add_parser("next", help="the coming times of a schedule", description=_DESCRIPTION)
    parser.add_argument("file", nargs="?", metavar="FILE", help="of the DAG in this file; - for standard input")
    parser.add_argument("--dag", metavar="NAME", help="which DAG, where the file holds several")
    parser.add_argument("--cron", action="append", metavar="EXPR", help="instead of FILE; may be given several times")
    parser.add_argument("--zone", metavar="TZ", help="with --cron: an IANA time zone (default: UTC)")
    parser.add_argument("--from", dest="start", metavar="T", help="print times after this RFC 3339 time (default: now)")
    parser.add_argument(
        "--count", type=int, default=COUNT_DEFAULT, metavar="N", help="how many times (default: %(default)s)"
    )
    parser.add_argument(
        "--gap",
        choices=[gap.value for gap in Gap],
        help=f"with --cron: fixed times left out as clocks go forward: run after it, or not (default: {Gap.RUN_AFTER})",
    )
    parser.add_argument(
        "--overlap",
        choices=[overlap.value for overlap in Overlap],
        help=f"with --cron: fixed times coming twice as clocks go back: which pass counts (default: {Overlap.FIRST})",
    )
    return parser


def run(args: argparse.Namespace, now: Callable[[], datetime]) -> int:
    """Print the times that the parsed options ask for; `now` gives the current time, aware."""
    schedule = _schedule_asked_for(args)
    if isinstance(schedule, Problem):
        return _refuse(schedule)
    if not 1 <= args.count <= COUNT_MAX:
        fact = f"{args.count} times are asked for"
        return _refuse(Problem("InvalidCount", "--count", fact, f"write a number from 1 to {COUNT_MAX}"))
    start = now() if args.start is None else parse_start(args.start)
    if isinstance(start, Problem):
        return _refuse(start.below("--from"))
    print_times(schedule, start, args.count)
    return EXIT_FINE


def _schedule_asked_for(args: argparse.Namespace) -> Schedule | Problem:
    """That of the DAG in the file, or the one spelled out by options; RefusedError for a file that holds none."""
    if (args.file is None) == (args.cron is None):
        fact = "no schedule is named" if args.file is None else "two schedules are named"
        return Problem("InvalidCommand", "", fact, "give either FILE or --cron")
    if args.file is not None and args.zone is not None:
        return Problem("InvalidCommand", "--zone", "the DAG names its own zone", "leave it out")
    if args.file is not None and (args.gap is not None or args.overlap is not None):
        option = "--overlap" if args.gap is None else "--gap"
        return Problem("InvalidCommand", option, "the DAG has its own rules, in spec.schedule.dst", "leave it out")
    if args.file is not None:
        from fencepost.cli.scheduled import schedule_in  # only here: reading a DAG takes more imports than all the rest

        return schedule_in(args.file, args.dag)
    crons = parse_crons(args.cron)
    if isinstance(crons, Problem):
        return crons
    zone = load_zone("UTC" if args.zone is None else args.zone)
    if isinstance(zone, Problem):
        return zone.below("--zone")
    gap, overlap = Gap(args.gap or Gap.RUN_AFTER), Overlap(args.overlap or Overlap.FIRST)
    return Schedule(ScheduleSpec(gap=gap, overlap=overlap), tuple(crons), zone)


def print_times(schedule: Schedule, after: datetime, count: int) -> None:
    """Print the next `count` times after an aware time; what is missing, and why, goes to stderr."""
    never = [cron for cron in schedule.crons if never_fires(cron)]
    for cron in never:
        print(f"warning: {cron.text!r} never fires, as no day matches it", file=sys.stderr)
    slots = schedule.next_slots(after.timestamp(), count)
    for slot_s in slots:
        print(format_local(datetime.fromtimestamp(slot_s, UTC), schedule.zone))
    if len(slots) < count and schedule.ends:
        print("warning: the schedule is over after that", file=sys.stderr)
    elif len(slots) < count and len(never) < len(schedule.crons):
        print(f"warning: no further time within {SEARCH_YEARS} years", file=sys.stderr)


def format_local(instant: datetime, zone: ZoneInfo) -> str:
    """RFC 3339 with the zone's offset; in UTC where the offset has seconds (long ago), which RFC 3339 cannot write."""
    local = instant.astimezone(zone)
    has_seconds = bool((local.utcoffset() or timedelta(0)) % timedelta(minutes=1))
    return instant.isoformat().replace("+00:00", "Z") if has_seconds else local.isoformat()


def parse_crons(texts: Sequence[str]) -> list[Cron] | Problem:
    """All expressions, or the first problem, under its option's name."""
    crons: list[Cron] = []
    for index, text in enumerate(texts):
        cron = parse_cron(text)
        if isinstance(cron, Problem):
            return cron.below("--cron" if len(texts) == 1 else f"--cron[{index}]")
        crons.append(cron)
    return crons


def load_zone(name: str) -> ZoneInfo | Problem:
    """The zone of that name, from the system's data or the tzdata package."""
    remedy = "write an IANA name such as Europe/Berlin, or UTC"
    fact = f"{name[:ZONE_LENGTH_MAX]!a} is not a time zone known here"
    zone = zone_of(name)
    if zone is not None:
        return zone
    known = {zone_name.lower(): zone_name for zone_name in available_timezones()}
    near = get_close_matches(name.lower(), known, n=1)
    return Problem("InvalidTimeZone", "", fact, f"did you mean {known[near[0]]}?" if near else remedy)


def parse_start(text: str) -> datetime | Problem:
    """An aware time; without an offset it would mean another moment on every machine."""
    try:
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text.upper())
    except ValueError:
        pass
    fact = f"{text[:ZONE_LENGTH_MAX]!a} is not an RFC 3339 time with an offset"
    return Problem("InvalidTime", "", fact, "write it like 2026-12-24T18:00:00+01:00 or 2026-12-24T17:00:00Z")


def _refuse(problem: Problem) -> int:
    print(problem, file=sys.stderr)
    return EXIT_REFUSED
