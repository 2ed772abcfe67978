"""Output and profiles to figures, and what they say."""
