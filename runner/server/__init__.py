"""The server: its HTTP interface, its queue, and the workers that it starts."""
