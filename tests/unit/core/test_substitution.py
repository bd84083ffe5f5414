"""`$(…)`: one pass, no surprise; what cannot be resolved is refused at apply with the words to write instead."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.core.substitution import (
    REFERENCES,
    UnresolvedReferenceError,
    check_references,
    output_reference,
    outputs_in,
    substitute,
)

VALUES = {"params.region": "eu", "index": "3", "token": "7"}
FRAGMENTS = st.sampled_from(["$", "(", ")", "$(", "$$(", "$(index)", "$$(index)", "$(params.region)", "$(nope)", "a"])
TEXTS = st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", ""),
        ("no dollar", "no dollar"),
        ("--region=$(params.region)", "--region=eu"),
        ("$(index)$(index)", "33"),
        ("costs 5$ and $5", "costs 5$ and $5"),
        ("${HOME} $HOME $$", "${HOME} $HOME $$"),
        ("$$(index)", "$(index)"),
        ("$$$(index)", "$$(index)"),
        ("$$(", "$("),
        ("f(index)", "f(index)"),
        ("$(index))", "3)"),
    ],
)
def test_a_reference_becomes_its_value_and_all_else_stays(text: str, want: str) -> None:
    assert substitute(text, VALUES) == want


def test_a_value_that_looks_like_a_reference_is_never_read_again() -> None:
    assert substitute("$(params.a)", {"params.a": "$(token) $$(", "token": "7"}) == "$(token) $$("


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("$(params.regoin)", "$(params.regoin) has no value here"),
        ("a $(index", "$(index opens a reference and never closes it"),
    ],
)
def test_what_has_no_value_at_the_start_of_a_job_is_said(text: str, want: str) -> None:
    with pytest.raises(UnresolvedReferenceError) as caught:
        substitute(text, VALUES)
    assert str(caught.value) == want


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_each_known_reference_is_accepted(name: str) -> None:
    assert check_references(f"x $({name}) y", ()) == []


@pytest.mark.parametrize(
    ("text", "want_reason", "want_fact", "want_remedy"),
    [
        (
            "echo $(date)",
            "UnknownReference",
            "$(date) is not a reference",
            "write $$(date) for a literal",
        ),
        ("$()", "UnknownReference", "$() is not a reference", "write $$() for a literal"),
        (
            "$(params.zone)",
            "UnknownReference",
            "$(params.zone) names no param of this DAG (it has: day, region)",
            "declare it under spec.params",
        ),
        ("$(region", "UnterminatedReference", "$(region opens a reference and never closes it", "close it with `)`"),
    ],
)
def test_a_reference_nobody_can_resolve_is_refused_with_a_remedy(
    text: str, want_reason: str, want_fact: str, want_remedy: str
) -> None:
    [problem] = check_references(text, ("region", "day"))
    assert (problem.reason, problem.path, problem.fact) == (want_reason, "", want_fact)
    assert want_remedy in problem.remedy


def test_each_wrong_reference_is_named_in_order() -> None:
    problems = check_references("$(a) $(index) $(params.b) $$(c) $(d", ())
    assert [problem.fact.split(")")[0] for problem in problems] == [
        "$(a",
        "$(params.b",
        "$(d opens a reference and never closes it",
    ]


def test_a_dag_without_params_is_told_that_it_has_none() -> None:
    [problem] = check_references("$(params.b)", ())
    assert "it has: none" in problem.fact


def test_a_long_text_is_quoted_in_short() -> None:
    [problem] = check_references("$(" + "x" * 5000, ())
    assert len(str(problem)) < 250


@given(TEXTS)
@example("$$($(index)")
def test_what_the_check_accepts_can_be_substituted_and_what_it_refuses_cannot(text: str) -> None:
    accepted = not check_references(text, ("region",))
    values = dict.fromkeys(REFERENCES, "v") | {"params.region": "v"}
    if accepted:
        substitute(text, values)
    else:
        with pytest.raises(UnresolvedReferenceError):
            substitute(text, values)


@given(st.text())
def test_an_escaped_text_comes_out_as_it_was(text: str) -> None:
    assert substitute(text.replace("$(", "$$("), {}) == text


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="$")), st.text(alphabet="ab( )"))
def test_a_value_stands_in_the_text_untouched(value: str, before: str, after: str) -> None:
    assert substitute(f"{before}$(params.x){after}", {"params.x": value}) == f"{before}{value}{after}"


def test_the_output_of_an_earlier_task_is_a_reference_and_of_any_other_a_problem() -> None:
    text = "$(tasks.load-data.output) $(tasks.b.output) $(tasks.b.outputs) $$(tasks.c.output) $(tasks.d.output"

    found = check_references(text, (), comes_before=lambda name: name == "load-data")

    assert [problem.fact.split(" ", 1)[0] for problem in found] == [
        "$(tasks.b.output)",
        "$(tasks.b.outputs)",
        "$(tasks.d.output",
    ]
    assert outputs_in(text) == ["load-data", "b"]
    assert substitute("$(tasks.load-data.output)", {output_reference("load-data"): "$(x)"}) == "$(x)"


def test_nothing_comes_before_a_task_of_which_nobody_says_so() -> None:
    assert len(check_references("$(tasks.a.output)", ())) == 1
