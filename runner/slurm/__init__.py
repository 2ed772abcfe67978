"""Slurm's programs: what is written to them, and what their answers say.

Format strings and states are those of the manual pages of sbatch, squeue and sinfo of
Slurm 20.11 and newer.
"""
