"""Expect a refusal of the engine by its code."""

import pytest

from bridge.contract.errors import ErrorCode
from bridge.engine.errors import EngineError


def refused(code: ErrorCode) -> pytest.RaisesExc[EngineError]:
    return pytest.raises(EngineError, check=lambda refusal: refusal.code is code)
