"""Images on a Docker Engine: pull, build, list and remove."""
