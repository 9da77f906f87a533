"""What every request passes: origin, token, quota, problem bodies, audit."""
