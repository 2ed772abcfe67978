"""What compiles and measures a submission, inside an image; golden.

A run brings these files as ``/src/runner/judge/``. They use Python's standard library
and nothing else of ``runner``.
"""
