"""GPUs: what a machine has, how a run can use them, and which a run gets.

installed   what there is of GPUs and their driver, and what nvidia-smi prints
nvml        the GPUs and their state by NVIDIA's library
nvidia      the GPUs of this machine from both, and a lock for each
access      the ways by which an engine can give GPUs to a run, and why there is none
choice      the GPUs that this process was given, and those that a request may get
allocation  how a run gets its GPUs and waits for them
watch       the files and the states of a run's GPUs
"""
