"""A server as its client sees it: who one is there, uploads, the copy of a run."""
