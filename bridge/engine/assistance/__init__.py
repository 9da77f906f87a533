"""Speech and language models of the installation's own choosing, by OpenAI-compatible endpoints."""
