"""What happens without a request: releases that fall due, waiting readers that wake up."""
