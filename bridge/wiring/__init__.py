"""The composition root: turns settings into connected parts. Decides nothing itself."""
