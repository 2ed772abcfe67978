"""Records and blocks as others read them: Markdown, JUnit, Gradescope.

    reported.py (a record: its figures by name, what went wrong in it)
        --> junit.py, gradescope.py
    markdown.py (blocks, as GitHub renders them; the page of a job)

What programs and projects say stands in all of it, and is escaped as each needs it.
"""

from __future__ import annotations
