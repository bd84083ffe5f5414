"""Lists to fan out over: what is one, and what each job gets of it."""

import pytest

from fencepost.core.fan_out import ListError, read_items, size_of
from fencepost.core.run_state import TaskState
from tests.unit.support.builders import a_task


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("[]", ()),
        ('["a", "b"]\n', ("a", "b")),
        ('["", "ü\\n"]', ("", "ü\n")),
        ("[1, 2.5, true, null]", ("1", "2.5", "true", "null")),
        ('[{"a": [1, "ü"]}, ["b"]]', ('{"a":[1,"ü"]}', '["b"]')),
        ("[123456789012345678901234567890]", ("123456789012345678901234567890",)),
    ],
)
def test_texts_come_as_they_are_and_all_else_as_json(text: str, want: tuple[str, ...]) -> None:
    assert read_items(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "there is no output"),
        (" \n", "there is no output"),
        ('{"a": 1}', "the output is JSON, but not a list: '{\"a\": 1}'"),
        ('"a"', "the output is JSON, but not a list"),
        ("a, b", "the output cannot be read as JSON (Expecting value: line 1 column 1 (char 0)): 'a, b'"),
        ('["\\ud800"]', "the output cannot be read as JSON ('utf-8' codec can't encode character"),
        ("[NaN]", "the output cannot be read as JSON (NaN is no JSON)"),
        ("[" * 100_000, "the output cannot be read as JSON ("),
        ("[" + "1" * 5000 + "]", "the output cannot be read as JSON ("),
    ],
)
def test_what_is_no_list_says_so_and_shows_its_beginning(text: str, want: str) -> None:
    with pytest.raises(ListError) as caught:
        read_items(text)

    assert str(caught.value).startswith(want)
    assert len(str(caught.value)) < 300


def test_a_fan_out_has_as_many_jobs_as_the_run_records_or_else_as_the_definition_says() -> None:
    assert size_of(a_task("a", count=3), TaskState()) == 3
    assert size_of(a_task("a", items=("x", "y")), TaskState()) == 2
    assert size_of(a_task("b", "a", items_from="a"), TaskState()) == 1
    assert size_of(a_task("b", "a", items_from="a"), TaskState(size=0)) == 0
