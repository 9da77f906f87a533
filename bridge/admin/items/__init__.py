"""One message or delivery: its page, trace and neighbours, and what a person does with it."""
