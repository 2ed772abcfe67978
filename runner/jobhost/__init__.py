"""The process beside a server that carries its runs out, here or on a cluster.

It has the engines and the GPUs, and never the server's store, its keys or its network
address. A server asks it through a Unix socket, by the messages of ``wire.host``.
"""
