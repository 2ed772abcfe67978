"""What is raised where a workflow has something that is not known here."""


class RefusedError(Exception):
    """A workflow asks for what its runner, or this stand-in for it, does not have."""
