"""What a server remembers: people, tokens, uploads, its queue, and acts of staff.

``base`` has the values; ``store`` is one schema on SQLite and on PostgreSQL. What a run
says is never in it: that is in the run's folder.
"""
