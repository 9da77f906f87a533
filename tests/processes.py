"""Test processes, forked from a process that has imported the program once."""

import multiprocessing

_LOADED = [
    "pytest",  # a child imports it again as the main module of its grandparent
    "bridge.cli.application",
    "bridge.queue.queries",
    "bridge.runtime.service",
    "bridge.store.databases",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
]
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(_LOADED)
