"""Monitoring for operators: alerts, conditions, probes, certificates, channels, archive. No patient
data.
"""
