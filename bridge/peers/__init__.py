"""The two ends a hospital has, for trying things out: a sender of orders, a receiver of results."""
