"""Sites: what each has set up."""
