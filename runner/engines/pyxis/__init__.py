"""Run commands in an image by NVIDIA's pyxis and enroot, inside a job of Slurm."""

from runner.engines.pyxis.engine import PyxisEngine

__all__ = ["PyxisEngine"]
