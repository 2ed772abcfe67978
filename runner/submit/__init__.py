"""Milestones as a team meets them: handouts, submissions, standings."""
