"""What a person sees first: the state of all channels, what needs attention, the first steps."""
