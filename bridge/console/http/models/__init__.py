"""The responses of the console's routes, from which the types of the pages are generated."""
