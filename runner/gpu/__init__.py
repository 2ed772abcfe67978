"""What follows from a machine's facts: the ways to its GPUs, and which a run gets.

ways     what an engine can give, and why a way is not there
choice   which GPUs a request may get
driver   whether an image's CUDA works with the driver and the GPU
absence  why a machine shows no GPU
"""
