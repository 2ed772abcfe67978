"""The server's HTTP interface, and what feeds its queue to the job host."""
