"""What networks printed and commands took (table.py), and the names of commands."""
