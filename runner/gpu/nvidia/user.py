"""Who asks for a GPU."""

from __future__ import annotations

import os


def user() -> str:
    """Give the name of the user whose rights this process has, or its number."""
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
