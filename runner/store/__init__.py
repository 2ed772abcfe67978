"""Run folders, their index, and the settings."""
