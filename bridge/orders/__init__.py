"""What the messages about an order mean: states, values, relations and plans. No I/O."""
