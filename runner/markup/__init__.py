"""Records and blocks as others read them: Markdown, JUnit, Gradescope, a CI's log.

    markdown.py (blocks, as GitHub renders them)  --> summary.py (a job's page)
    reported.py (a record, its figures by name)   --> junit.py, gradescope.py
    annotations.py (what went wrong)              --> workflow.py (lines of a CI's log)

What programs and projects say stands in all of it, and is escaped as each needs it.
"""

from __future__ import annotations
