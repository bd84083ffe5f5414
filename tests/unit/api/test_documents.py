"""YAML as kubectl reads it. What kubectl makes of each scalar was tried with kubectl itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.documents import load_yaml_documents
from fencepost.core.problems import Problem


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("2026-12-24T18:00:00Z", "2026-12-24T18:00:00Z"),
        ("2026-12-24", "2026-12-24"),
        ("12:30:00", "12:30:00"),
        ("10m", "10m"),
        ("1_000", 1000),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b11", 3),
        ("08", 8),
        ("1e3", 1000),
        ("1.50", 1.5),
        ("1.", 1),
        ("on", True),
        ("N", False),
        ("~", None),
        ("", None),
        ("=", "="),
        ('"1"', "1"),
        ("!!str 1", "1"),
    ],
)
def test_a_scalar_is_what_kubectl_takes_it_for(text: str, want: Any) -> None:
    documents = load_yaml_documents(f"value: {text}")

    assert documents == [{"value": want}]
    assert isinstance(documents, list)
    assert type(documents[0]["value"]) is type(want)


def test_keys_are_strings_whatever_they_look_like() -> None:
    assert load_yaml_documents("{1: a, true: b, 2026-12-24: c}") == [{"1": "a", "true": "b", "2026-12-24": "c"}]


def test_documents_come_in_order_without_the_empty_ones() -> None:
    assert load_yaml_documents("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


def test_a_merged_map_gives_way_to_what_stands_beside_it() -> None:
    assert load_yaml_documents("a: &a {b: 1, c: 2}\nd: {<<: *a, c: 3}") == [
        {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}
    ]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' stands twice"),
        ("a: [1", "line 1"),
        ("? [1]\n: 2", "the key of a map is not a scalar"),
        ("&a {b: *a}", "recursive"),
        ("a: !!python/object:os.system x", "line 1, column 4"),
        ("a: !!timestamp 2026-12-24", "line 1, column 4"),
        ("a: !!bool maybe", "'maybe' is neither true nor false"),
        ("a: 1e999", "too large"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("[" * 5000, "cannot be read"),
        ("\x00", "cannot be read"),
    ],
)
def test_what_is_no_yaml_or_no_json_is_a_problem_with_its_line(text: str, fact: str) -> None:
    problem = load_yaml_documents(text)

    assert isinstance(problem, Problem)
    assert problem.reason == "InvalidYAML"
    assert fact in problem.fact


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    load_yaml_documents(text)
