"""The parser estimates the cost of a JSON body from its text, and reports few mistakes."""

import pytest
from pydantic import ConfigDict, Field, ValidationError

from bridge.contract.requests import MAX_MISTAKES, Model
from bridge.web.bodies import MAX_VALUES, TooManyValues, require_few_values
from parsers.limits import DocumentRefused
from parsers.readers import read_json

MANY = b'{"a": [' + b"1," * (MAX_VALUES + 1) + b"1], "


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"{}," * MAX_VALUES + b"1]",
        b"[" + b"[]," * MAX_VALUES + b"1]",
        b"[" + b'"",' * (MAX_VALUES + 1) + b"1]",
        b'["' + b"," * MAX_VALUES + b'",' + b'"a",' * (MAX_VALUES + 1) + b"1]",
        b'["' + b"," * MAX_VALUES + b'"' + b'""' * 10 * MAX_VALUES,
        b"{" + b",".join(b'"%d":1' % number for number in range(MAX_VALUES + 2)) + b"}",
        MANY + b'"b": "' + b'\\"' * 10**6,  # an unterminated string
        MANY + b'"b": "' + b'\\"' * 10**6 + b"\\",
    ],
    ids=["objects", "lists", "texts", "commas", "joined", "names", "open", "escaped end"],
)
def test_bodies_with_too_many_values_are_refused_by_their_text(body: bytes) -> None:
    """The scan refuses the body before parsing, and reads each character once."""
    with pytest.raises(TooManyValues):
        require_few_values(body)


@pytest.mark.parametrize("end", [b'"', b"", b"\\"])
def test_commas_within_texts_are_no_values(end: bytes) -> None:
    """A report of prose passes. An unterminated string also passes, and the parser refuses it."""
    require_few_values(b'["' + b",\\" * 0 + b'",' + b'"' + b'one, two \\" ' * MAX_VALUES + end)


@pytest.mark.parametrize(
    "body",
    [b"[" * 10**6, b'{"a":' * 10**5, b"1" * 10**6, b"-" + b"9" * 5000, b"1e999", b"NaN", b"\xff"],
    ids=["lists", "objects", "digits", "negative", "infinite", "no number", "no UTF-8"],
)
def test_hostile_values_are_refused_with_a_reason(body: bytes) -> None:
    """The refusal has our own reason, and not an error of the parser."""
    with pytest.raises(DocumentRefused) as refused:
        read_json(body)
    assert refused.value.reason


def test_a_body_that_is_wrong_everywhere_has_one_mistake() -> None:
    """The parser reports one mistake, because each report costs a thousand bytes."""

    class Names(Model):
        model_config = ConfigDict(extra="forbid")
        names: list[str] = Field(default_factory=list)

    class Outer(Model):
        inside: Names

    for wrong in ({"names": [1] * 10_000}, {str(number): 1 for number in range(10_000)}):
        with pytest.raises(ValidationError) as refused:
            Outer.model_validate({"inside": wrong})
        assert refused.value.error_count() == 1
    with pytest.raises(ValidationError) as refused:
        Names.model_validate({"names": [1] * MAX_MISTAKES})
    assert refused.value.error_count() == MAX_MISTAKES
