"""`bridge check`: what is wrong with an installation."""
