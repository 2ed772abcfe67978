"""The life of a run, here, on a server or on Slurm."""
