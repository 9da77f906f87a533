"""Email addresses as identities: each variant is the same account or refused."""

import pytest

from bridge.email import canonical_email, is_email

ADA = "ada@site1.test"


@pytest.mark.parametrize(
    "variant", ["ADA@SITE1.TEST", " ada@site1.test ", "Ada@Site1\u3002test", "ada@\u017fite1.test"]
)
def test_variants_have_one_form(variant: str) -> None:
    """The canonical form folds case, space, full stops of other scripts and ASCII lookalikes."""
    assert canonical_email(variant) == ADA


@pytest.mark.parametrize(
    "variant",
    [
        "\uff41da@site1.test",  # full width
        "ada@\uff53ite1.test",
        "a\u200bda@site1.test",  # zero width space
        "ada@site1.test\u202e",  # right-to-left override
        "a\u0301da@site1.test",  # a combining mark
        "\u0430da@site1.test",  # Cyrillic a among Latin letters
        "ada@sit\u0435.test",
        "\u0130da@site1.test",  # folds to i and a mark
        "ad\x00a@site1.test",
        "ad a@site1.test",
        "ada@site1..test",
        "ada@site1.test.",
        "ada",
        "\u017fada@site1.test",
    ],
)
def test_lookalikes_are_refused(variant: str) -> None:
    """An address that imitates another one is refused."""
    assert not is_email(variant)


@pytest.mark.parametrize("text", ["Straße@b\u00fccher.de", "jos\u00e9@x.de", "o'neil+a@x.co.uk"])
def test_the_form_is_stable(text: str) -> None:
    """The canonical form of a canonical form is the same."""
    assert is_email(text)
    assert canonical_email(canonical_email(text)) == canonical_email(text)


def test_domains_are_compared_in_ascii() -> None:
    """An international domain equals its ASCII spelling."""
    assert canonical_email("a@b\u00fccher.de") == canonical_email("a@xn--bcher-kva.de")
