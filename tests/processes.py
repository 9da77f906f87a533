"""Processes of the tests, forked from one that has loaded the program: imports are done once."""

import multiprocessing

_LOADED = [
    "pytest",  # which a child looks up again as the main module of its grandparent
    "bridge.cli.application",
    "bridge.queue.queries",
    "bridge.runtime.service",
    "bridge.wiring.stores",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
]
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(_LOADED)
