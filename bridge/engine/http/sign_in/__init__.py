"""Sign-in: passwords, OpenID Connect, enrolment, remembered devices."""
