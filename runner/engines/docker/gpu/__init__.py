"""GPUs for a container: options, locks and queries on the engine's machine."""
