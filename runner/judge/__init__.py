"""What compiles and measures a submission, inside an image: the golden part.

A run is sent these files and no others of ``runner``, so they need the standard library
of Python 3.11 only and import nothing but ``runner.judge``.
"""
