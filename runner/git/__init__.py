"""A project's commits, read without starting any program that the project names.

repository.py (where things are, git in an empty repository, the commit of a folder) ->
commits.py (a commit by its name, and its files)
"""

from __future__ import annotations

from runner.git.commits import ProjectCommit, files_of, find, unknown
from runner.git.repository import state

__all__ = ["ProjectCommit", "files_of", "find", "state", "unknown"]
