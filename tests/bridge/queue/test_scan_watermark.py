"""Most scans skip most partitions. A full scan follows regularly."""

from bridge.queue.lanes import ScanWatermark


def test_the_first_scan_is_full() -> None:
    """The first scan is full, and so is one after each interval."""
    floor = ScanWatermark(interval=5.0, margin=10)
    assert floor.position(100.0) == 0
    floor.record(0, [57, 31], 100.0)
    assert floor.position(104.9) == 21
    assert floor.position(105.0) == 0


def test_later_scans_start_below_the_newest_id() -> None:
    """The margin covers other transactions, which commit later."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [], 0.0)
    assert floor.position(1.0) == 0
    floor.record(0, [157], 0.0)
    floor.record(140, [188], 1.0)
    floor.record(0, [], 5.0)
    assert floor.position(6.0) == 178


def test_a_partial_scan_does_not_postpone_the_full_one() -> None:
    """A partial scan changes neither the time of the full scan nor the watermark."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.record(90, [500], 4.0)
    assert floor.position(4.5) == 90
    assert floor.position(5.0) == 0


def test_a_notification_brings_a_full_scan_soon() -> None:
    """One full scan serves all earlier notifications."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.expect_old_rows()
    assert [floor.position(0.1), floor.position(0.25)] == [90, 0]
    floor.record(0, [100], 0.25)
    assert floor.position(1.0) == 90


def test_unblocked_rows_are_scanned_at_any_age() -> None:
    """Unblocked rows are scanned until the next full scan."""
    floor = ScanWatermark(interval=5.0, margin=10)
    floor.record(0, [100], 0.0)
    floor.include([])
    assert floor.position(1.0) == 90
    floor.include([7, 200])
    assert floor.position(1.0) == 7
    floor.record(0, [100], 5.0)
    assert floor.position(6.0) == 90


def test_scan_positions_are_rounded() -> None:
    """The scan includes one step below the watermark, so that postponed rows are due on time."""
    found = [
        ScanWatermark.partition_start(each) for each in (0, 99_999, 199_999, 200_000, 1_234_567)
    ]
    assert found == [0, 0, 0, 100_000, 1_100_000]
