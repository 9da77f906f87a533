"""Mapping definitions: drafts, trials, comparison, activation."""
