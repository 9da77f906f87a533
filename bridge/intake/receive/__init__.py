"""From frame to acknowledgment: evaluate a frame, store it, acknowledge it."""
