"""The composition root: builds connected parts from settings. It contains no use cases."""

from bridge.workers.hooks import install

install()  # hooks of definitions run in worker processes
