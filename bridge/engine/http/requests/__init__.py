"""Request handling before and around the routes: origin, token, quota, problems, audit."""
