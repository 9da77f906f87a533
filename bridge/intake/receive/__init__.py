"""From frame to acknowledgment: judge a frame, store it, answer it."""
