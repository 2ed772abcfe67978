"""GPUs: what a machine has, how a run can use them, and which a run gets.

nvidia      the GPUs of this machine, their state, and their locks
access      the ways by which an engine can give GPUs to a run
allotment   the GPUs of a machine that this process was given
choice      the GPUs that a request may get
absence     why a machine has no GPU that works
allocation  how a run gets its GPUs and waits for them
"""
