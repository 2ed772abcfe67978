"""A copy of project/, without its tests, to change."""

import shutil

import plan


def project(folder, *without):
    """Copy it into a folder; return where it lies there."""
    left = shutil.ignore_patterns("__pycache__", "tests", *without)
    return shutil.copytree(plan.HERE, folder / "project", ignore=left)
