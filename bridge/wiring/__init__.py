"""The composition root: builds connected parts from settings, without decisions of its own."""

from bridge.workers.hooks import install

install()  # hooks of definitions run in worker processes
