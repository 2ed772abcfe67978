"""The NVIDIA GPUs of this machine, their state and their locks.

host()              the GPUs, the driver and their files
states(gpus)        present clocks, temperatures and processes
hold(gpu, run_id)   a lock that the kernel releases when its holder dies
"""

from runner.gpu.nvidia.host import host, states
from runner.gpu.nvidia.locks import hold

__all__ = ["hold", "host", "states"]
