"""A server's queue, decided: whose turn it is, and what a role may ask for.

``decision.decide`` returns what starts now and how the others stand: ``turns`` is the
order, ``cluster_room`` what fits on a cluster, ``estimates`` when, ``words`` why not
yet. ``views`` shows runs to a team; ``roles`` are the rules.
"""
