"""Interface packages: read a package, keep it in the data directory, activate it."""
