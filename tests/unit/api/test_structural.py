"""From the dialect of pydantic to that of a CRD."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from fencepost.api.schema import LaterText, OnlyNow, Part, rule, rules
from fencepost.api.structural import SchemaError, structural


class Leaf(Part):
    """A leaf."""

    size: Annotated[int, Field(gt=0, lt=10)]


def schema_of(model: type[Part]) -> dict[str, Any]:
    return structural(model.model_json_schema(by_alias=True))


def field_of(annotation: Any, **values: Any) -> dict[str, Any]:
    """The schema of one field of this type."""
    model = type("Made", (Part,), {"__annotations__": {"field": annotation}, **values})
    made: dict[str, Any] = schema_of(model)["properties"]["field"]
    return made


def test_references_are_put_in_their_place_and_optional_is_what_is_not_required() -> None:
    class Tree(Part):
        first: Leaf
        second: Leaf | None = None
        more: list[Leaf]
        by_name: dict[str, Leaf]

    leaf = {
        "description": "A leaf.",
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 10, "exclusiveMaximum": True}
        },
        "required": ["size"],
    }
    assert schema_of(Tree) == {
        "type": "object",
        "properties": {
            "first": leaf,
            "second": leaf,
            "more": {"type": "array", "items": leaf},
            "byName": {"type": "object", "additionalProperties": leaf},
        },
        "required": ["first", "more", "byName"],
    }


def test_a_constant_is_an_enum_of_one() -> None:
    assert field_of(Literal["only"]) == {"type": "string", "enum": ["only"]}


def test_what_stands_beside_a_reference_wins_over_what_it_refers_to() -> None:
    made = field_of(
        Annotated[Leaf | None, Field(description="Mine.", json_schema_extra=rules(rule("a", "b")))], field=None
    )

    assert made["description"] == "Mine."
    assert made["x-kubernetes-validations"] == [{"rule": "a", "message": "b"}]


def test_a_default_keeps_what_it_says_and_drops_its_nulls() -> None:
    class Choice(Part):
        policy: str = "Forbid"
        limit: int | None = None

    assert field_of(Choice, field=Choice())["default"] == {"policy": "Forbid"}


def test_a_field_that_comes_later_is_refused_by_its_path() -> None:
    class Task(Part):
        when: LaterText | None = None

    class Spec(Part):
        tasks: list[Task]

    class Root(Part):
        spec: Spec

    when = schema_of(Root)["properties"]["spec"]["properties"]["tasks"]["items"]["properties"]["when"]
    assert when == {
        "type": "string",
        "x-kubernetes-validations": [
            {"rule": "false", "message": "spec.tasks[*].when is not supported yet; remove it"}
        ],
    }


def test_a_value_that_comes_later_is_refused_beside_those_that_work() -> None:
    made = field_of(Annotated[Literal["Allow", "Queue"], OnlyNow(("Allow",))])

    assert made["enum"] == ["Allow", "Queue"]
    assert [each["rule"] for each in made["x-kubernetes-validations"]] == ["self in ['Allow']"]


@pytest.mark.parametrize("annotation", [int | str, tuple[int, str]])
def test_what_a_crd_cannot_say_is_our_mistake_and_raises(annotation: Any) -> None:
    with pytest.raises(SchemaError, match="field"):
        field_of(annotation)
