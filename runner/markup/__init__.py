"""Records and blocks as others read them: Markdown, CSV, JUnit, Gradescope, a CI's log.

    markdown.py (blocks, as GitHub renders them) --> summary.py (a job's page)
    figures.py (figures by name)                 --> rows.py, junit.py, gradescope.py
    annotations.py (what went wrong)             --> workflow.py (lines of a CI's log)

What programs and projects say stands in all of it, and is escaped as each needs it.
"""

from __future__ import annotations
