"""rai: run a project's rai_build.yml in a container or a sandbox, and record it."""

__version__ = "0.1.0"
