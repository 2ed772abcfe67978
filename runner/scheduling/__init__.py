"""A server's queue, decided: whose turn it is, and what a role may ask for.

``decision.decide`` returns what starts now and how the others stand: ``turns`` is the
order, ``room`` what is free, ``estimates`` when, ``words`` why not yet. ``views`` shows
runs to a team; ``roles`` are the rules.
"""
