"""Most partitions are left alone most of the time, and none for ever."""

from bridge.queue.lanes import ScanWatermark


def test_at_first_everything_is_looked_at() -> None:
    """And again whenever the time for it has come."""
    floor = ScanWatermark(every=5.0, margin=10)
    assert floor.position(100.0) == 0
    floor.record(0, [57, 31], 100.0)
    assert floor.position(104.9) == 21
    assert floor.position(105.0) == 0


def test_where_nothing_waits_the_newest_are_looked_at() -> None:
    """From a margin below the newest that was ever seen: others' transactions commit later."""
    floor = ScanWatermark(every=5.0, margin=10)
    floor.record(0, [], 0.0)
    assert floor.position(1.0) == 0
    floor.record(0, [157], 0.0)
    floor.record(140, [188], 1.0)
    floor.record(0, [], 5.0)
    assert floor.position(6.0) == 178


def test_a_look_at_the_newest_says_nothing_of_the_others() -> None:
    """What it finds does not put off the next look at everything, nor move the floor."""
    floor = ScanWatermark(every=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.record(90, [500], 4.0)
    assert floor.position(4.5) == 90
    assert floor.position(5.0) == 0


def test_who_hurries_has_everything_looked_at_soon() -> None:
    """Not at each announcement, and once for all that came before the look."""
    floor = ScanWatermark(every=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.expect_old_rows()
    assert [floor.position(0.1), floor.position(0.25)] == [90, 0]
    floor.record(0, [100], 0.25)
    assert floor.position(1.0) == 90


def test_what_moves_up_is_looked_at_however_old_it_is() -> None:
    """Until the next look at everything, which finds what is left of it."""
    floor = ScanWatermark(every=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.include([])
    assert floor.position(1.0) == 90
    floor.include([7, 200])
    assert floor.position(1.0) == 7
    floor.record(0, [100], 5.0)
    assert floor.position(6.0) == 90


def test_partitions_are_left_alone_in_whole_parts() -> None:
    """And a whole part is left below the floor: what was put off a while ago is due on time."""
    found = [ScanWatermark.of_partitions(each) for each in (0, 99_999, 199_999, 200_000, 1_234_567)]
    assert found == [0, 0, 0, 100_000, 1_100_000]
