"""Patients of known orders: demographics, merges, visits, and conflicts between messages."""
