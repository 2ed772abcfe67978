"""Run folders, what is kept of them, and the settings."""
