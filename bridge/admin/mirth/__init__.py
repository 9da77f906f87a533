"""Proposals of listeners, definitions and destinations from the channels of Mirth Connect."""
