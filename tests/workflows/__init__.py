"""Carry out the jobs of workflows on this machine, as GitHub's runner and GitLab's do.

`python -m tests.workflows FILE JOB` runs the steps of a job in a folder of its own:
scripts as the runner starts them, with its variables and files, and stand-ins for the
actions of others, which check what they are given. What it does not know it refuses.
"""
