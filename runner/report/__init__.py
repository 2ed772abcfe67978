"""Turn records into blocks, which each display renders, and figures into words.

runs.py (a record, a list of records), ending.py (the end of a run), findings.py
(figures, a measured submission), plans.py, benched.py, diff.py (two runs)
       -> phrases.py (figures as text), blocks.py (the parts of a report)
"""
