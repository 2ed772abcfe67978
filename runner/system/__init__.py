"""This machine: files, folders, processes, and facts about it."""
