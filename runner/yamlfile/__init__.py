"""YAML as a tree with places, and typed readers that collect every problem.

problems = Problems()
node = compose(text, "rai_build.yml", problems)      # scalars are text
fields = Fields.of(node, {"": ("name", "limits"), "limits": ("time",)}, problems)
if fields and (limits := fields.child("limits")):
    time_s = limits.duration_s("time", 3600.0)
if problems.fatal: ...                               # problems.in_file_order()
"""

from runner.yamlfile.composer import compose, decode, dump
from runner.yamlfile.fields import Fields, Grammar, resembling
from runner.yamlfile.nodes import Mapping, Node, Problems, Scalar, Sequence, kind
