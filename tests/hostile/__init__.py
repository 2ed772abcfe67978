"""Hostile runs: what a program, a project or an image may try, on each engine.

To add a case: a ``Case`` in ``CASES`` of a file in ``cases/``. It has a name, one short
sentence that says what it tries, the commands (or a build file, more files, a
function that makes what a mapping of files cannot), and how the run must end.
``test_hostile.py`` starts ``rai run`` for it in each of ``columns.COLUMNS`` and checks

* the exit code and the reason in the record,
* that it ends by itself, and that rai takes less than 200 MB,
* that nothing stays: processes, containers, volumes, images, control groups, mounts,
  temporary folders, files outside of RAI_HOME,
* that nothing of ``outside/`` was read or written, and the case's own ``check``.

A limit that cannot be enforced for the column's user must be named in the first line,
the record and ``rai doctor``. ``make hostile`` runs all and writes the table of
docs/hostile.md; cases with ``ci`` run in ``make long`` too. To run some::

    python -m pytest -m hostile -k "fork_bomb and docker"
"""
