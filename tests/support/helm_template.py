"""Prints what `helm template` would, by Helm's own library, where there is no helm. Arguments: the chart; values, as JSON."""

import json
import sys

import helm_python

chart, values = sys.argv[1], json.loads(sys.argv[2])
with helm_python.Chart.load(chart) as loaded:
    loaded.validate_schema(values)
    for path, text in sorted(loaded.render(values, name="jobgate", namespace="jobgate").items()):
        if path.endswith(".yaml"):
            print(f"---\n{text}")
