"""What goes wrong with definitions, as the console tells it: with places, versions, and who."""

from collections.abc import Iterator
from contextlib import contextmanager

from bridge.console.errors import Conflict, ConsoleError, Impossible, Mistaken, Overloaded, Unknown
from bridge.errors import BridgeError
from bridge.store.errors import StoreError
from bridge.wiring.activating import NoSuchVersion, NothingBefore, Overtaken
from bridge.wiring.authoring.told import issue
from bridge.wiring.drafting import NoDraft, SavedElsewhere
from bridge.wiring.reading import NoListener
from bridge.workers.errors import WorkerBusy
from mappings.errors import MappingErrors
from parsers.errors import DocumentRefused

_NOT_THERE = (NoSuchVersion, NothingBefore, NoDraft, NoListener)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what this package's callees raise into refusals of the console."""
    try:
        yield
    except MappingErrors as errors:
        count = len(errors.issues)
        raise Mistaken(
            f"{count} mistakes", issues=[issue(each) for each in errors.issues]
        ) from None
    except SavedElsewhere as error:
        raise Conflict("saved_elsewhere", str(error)) from None
    except Overtaken as error:
        raise Conflict("overtaken", str(error), version=error.version) from None
    except _NOT_THERE as error:
        raise Unknown(str(error)) from None
    except WorkerBusy:
        raise Overloaded from None
    except DocumentRefused as refused:
        raise Impossible(refused.reason) from None
    except (StoreError, ConsoleError):
        raise
    except BridgeError as error:
        raise Impossible(str(error)) from None
