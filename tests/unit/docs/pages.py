"""The documents: where they are, and how their tables and code words are read."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OPERATOR = ROOT / "operator"
SOURCE = OPERATOR / "fencepost"
DOCS = OPERATOR / "docs"
DESIGN = OPERATOR / "DESIGN.md"
README = ROOT / "README.md"
FOR_USERS = [README, *sorted(DOCS.glob("*.md"))]
ALL = [*FOR_USERS, DESIGN, *sorted((OPERATOR / "decisions").glob("*.md"))]

Row = list[str]


def text_of(*pages: Path) -> str:
    """All of them."""
    return "\n".join(page.read_text() for page in pages)


def section(page: Path, heading: str) -> str:
    """What stands under a heading such as `## Failures`, up to the next one that is not below it."""
    level = heading.split(" ", maxsplit=1)[0]
    _, found, rest = f"\n{page.read_text()}".partition(f"\n{heading}\n")
    assert found, f"{page.name} has no heading {heading!r}"
    return re.split(rf"\n#{{1,{len(level)}}} ", rest)[0]


def rows(text: str) -> Iterator[Row]:
    """The rows of all tables in a text, without their heads."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        head = number + 1 < len(lines) and lines[number + 1].startswith("|---")
        if line.startswith("|") and not line.startswith("|---") and not head:
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def words(text: str) -> list[str]:
    """What stands between backticks, code blocks left out."""
    prose = re.sub(r"(?ms)^```.*?^```$", "", text)
    return re.findall(r"`([^`\n]+)`", prose)
