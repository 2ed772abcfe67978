"""A server as its client sees it: who one is there, the copy of a run."""
