"""Control ids of our own are short, plain, and never given twice."""

from bridge.intake.receive import identity


def test_never_twice() -> None:
    """Neither by one giver, nor by two, nor when the count begins again."""
    one, other = identity.ControlIds(), identity.ControlIds()
    ids = [give() for give in (one, other) for _ in range(1000)]
    one._count = iter([identity._MOST_COUNTED + 1])  # type: ignore[assignment]  # near its end
    ids += [one() for _ in range(10)]
    assert len(set(ids)) == len(ids)


def test_what_they_look_like() -> None:
    """At most the 20 characters that MSH-10 has room for before 2.7, letters and digits only."""
    give = identity.ControlIds()
    assert all(len(each) == 20 and each.isalnum() and each.isascii() for each in (give(), give()))
