"""Report ids: distinct and unguessable; those of a batch beside each other."""

from bridge.engine.service.launch.creation import report_ids

COMMON = 8


def test_ids_of_a_batch_stand_together() -> None:
    """One draw for what is common: the batch is one place in every index, another batch another."""
    first, second = report_ids(100), report_ids(100)
    assert len({each[:COMMON] for each in first + second}) == 2
    assert first[0][:COMMON] != second[0][:COMMON]


def test_nobody_guesses_one() -> None:
    """96 bits of each are its own, in no order: each digit takes every value."""
    ids = report_ids(2000)
    assert {len(each) for each in ids} == {32}
    tails = [each[COMMON:] for each in ids]
    assert len(set(tails)) == len(tails)
    assert all(len(set(column)) == 16 for column in zip(*tails, strict=True))
    assert tails != sorted(tails)
