"""GPUs for containers: settings, locks and queries on the engine's machine."""
