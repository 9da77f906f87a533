"""Monitoring for operators: alerts, channels, certificates, connection probes, traces, archive."""
