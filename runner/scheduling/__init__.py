"""A server's queue, decided: whose turn it is, and what a role may ask for."""
