"""txHL7's receiver for `twistd mllp`: prints a line for each message that it parsed."""

import json
import sys

from txHL7.receiver import AbstractHL7Receiver, HL7MessageContainer
from typing_extensions import override


class Results(AbstractHL7Receiver):  # type: ignore[misc]  # txHL7 has no types
    def handleMessage(self, container: HL7MessageContainer) -> str:  # noqa: N802  # its name
        out = sys.__stdout__  # twisted takes the other one for its log
        assert out is not None
        out.write(json.dumps(str(container.message)) + "\n")
        out.flush()
        return str(container.ack())

    @override
    def getCodec(self) -> tuple[str, str]:
        return "utf-8", "strict"
