"""The report engine: it stores reports and serves HTTP. Only wiring and admin import it."""
