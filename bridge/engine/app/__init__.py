"""The reporting app: its built files (`assets`)."""
