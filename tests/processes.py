"""Test processes, forked from a process that has imported the program once."""

import multiprocessing

_LOADED = [
    "pytest",  # a child imports it again as the main module of its grandparent
    "alembic.config",
    "alembic.runtime.environment",
    "alembic.script",
    "bridge.cli.application",
    "bridge.admin.access.access_administration",
    "bridge.admin.checks.checks",
    "bridge.admin.installation.data_directory",
    "bridge.admin.items.queue_entries",
    "bridge.engine.documents.exports.pdf",
    "bridge.engine.http.engine_application",
    "bridge.runtime.assembly",
    "bridge.runtime.intake_process",
    "bridge.runtime.service",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "tests.preloaded",
]
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(_LOADED)
