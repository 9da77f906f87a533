"""hl7apy's MLLPServer: `PORT`; prints a line for each ORU that it parsed."""

import json
import sys

from hl7apy.core import Message
from hl7apy.mllp import AbstractHandler, MLLPServer
from hl7apy.parser import parse_message
from typing_extensions import override


class Results(AbstractHandler):  # type: ignore[misc]  # hl7apy has no types
    @override
    def reply(self) -> str:
        message = parse_message(self.incoming_message)
        sys.stdout.write(json.dumps(message.to_er7()) + "\n")
        sys.stdout.flush()
        reply = Message("ACK", version="2.5.1")
        reply.msh.msh_9 = "ACK^R01^ACK"
        reply.msh.msh_10 = f"R{message.msh.msh_10.value}"
        reply.msh.msh_11 = "P"
        reply.msa = f"MSA|AA|{message.msh.msh_10.value}"
        return str(reply.to_mllp())


def main(port: int) -> None:
    """Serve until the process is ended."""
    MLLPServer("127.0.0.1", port, {"ORU^R01^ORU_R01": (Results,)}).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
