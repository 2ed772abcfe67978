"""A server's queue, decided: whose turn it is, and what a role may ask for.

``queue`` has the rules of roles, the runs, their order, and what room there is;
``decision`` what starts now, how the others stand, and what a team sees of that.
"""
