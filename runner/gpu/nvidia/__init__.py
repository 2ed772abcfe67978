"""What this machine knows of NVIDIA GPUs: which there are, their state, their locks.

host()              the facts that all choices are made of
states(gpus)        clocks, temperature, other processes, now
hold(gpu, run_id)   a lock that the kernel frees when its holder dies
"""

from runner.gpu.nvidia.host import host, states
from runner.gpu.nvidia.locks import hold

__all__ = ["hold", "host", "states"]
