"""Examination of a partner's receiver or sender: protocol probes and their report."""
