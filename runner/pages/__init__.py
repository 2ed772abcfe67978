"""Reports as pages of HTML: one file each, which needs no network.

    report(title, sections, timelines)    # the text of the file
    timeline_page(title, timeline)        # one with a timeline only

What a run printed is escaped, and the page's own policy allows no script, style or
picture but those that it was made with.
"""

from __future__ import annotations

from runner.pages.document import report
from runner.pages.timeline import page as timeline_page

__all__ = ["report", "timeline_page"]
