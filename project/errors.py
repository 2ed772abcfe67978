"""What the scripts refuse; the message is the whole report, without a traceback."""

from __future__ import annotations


class ProjectError(Exception):
    """A file is missing, damaged or stale."""

    exit_code = 1


class UsageError(ProjectError):
    """The command line asks for what cannot be."""

    exit_code = 2
