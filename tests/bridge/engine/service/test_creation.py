"""Report ids are unique and random; the ids of a batch are adjacent in an index."""

from bridge.engine.service.launch.registration import report_ids

COMMON = 8


def test_ids_of_a_batch_share_a_prefix() -> None:
    """The first eight digits are equal within a batch and differ between batches."""
    first, second = report_ids(100), report_ids(100)
    assert len({item[:COMMON] for item in first + second}) == 2
    assert first[0][:COMMON] != second[0][:COMMON]


def test_ids_are_random() -> None:
    """96 bits of each id are random: each digit has every value, in no order."""
    ids = report_ids(2000)
    assert {len(row_id) for row_id in ids} == {32}
    tails = [identifier[COMMON:] for identifier in ids]
    assert len(set(tails)) == len(tails)
    assert all(len(set(column)) == 16 for column in zip(*tails, strict=True))
    assert tails != sorted(tails)
