"""The composition root: turns settings into connected parts. Decides nothing itself."""

from bridge.workers.hooks import install

install()  # every command that compiles definitions comes through here, or does the same
