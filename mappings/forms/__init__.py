"""Mapping by form: code written for messages of one form, which says what the rules say."""
