"""Stored messages: the index that finds them, their content, and how they are read again."""
