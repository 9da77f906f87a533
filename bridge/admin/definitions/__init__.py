"""Use cases for mapping definitions: drafts, trials, comparison, activation."""
