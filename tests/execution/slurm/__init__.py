"""A Slurm of the tests' own, and what rai does with one."""
