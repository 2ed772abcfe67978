"""Submissions: from a milestone and a project to runs and an outcome.

``files`` looks at the project, ``planning`` makes the judge's job of its plan.json,
``golden`` has the judge's own files, ``staging`` writes the folder of each run, and
``builds`` takes from one run's build folder what the next one holds.
"""
