"""helm template NAME DIR [--values F]... [--namespace=NS]: by Helm's own library."""
import json, re, sys
import helm_python
args = sys.argv[1:]
assert args.pop(0) == "template"
values, ns, pos = [], "default", []
while args:
    a = args.pop(0)
    if a == "--values": values.append(args.pop(0))
    elif a.startswith("--namespace="): ns = a.split("=", 1)[1]
    else: pos.append(a)
name, chart = pos if len(pos) == 2 else ("release-name", pos[0])
def merge(a, b):
    for k, v in b.items():
        a[k] = merge(a[k], v) if isinstance(v, dict) and isinstance(a.get(k), dict) else v
    return a
all_values = {}
for f in values:
    merge(all_values, helm_python.values_from_yaml(open(f).read()))
try:
    with helm_python.Chart.load(chart) as loaded:
        rendered = loaded.render(all_values, name=name, namespace=ns)
except Exception as e:
    print("Error:", str(e).split("\n")[0], file=sys.stderr); sys.exit(1)
for path, text in sorted(rendered.items()):
    base = path.rsplit("/", 1)[-1]
    if base.startswith("_") or base == "NOTES.txt": continue
    for doc in re.split(r"(?m)^---.*\n", text + "\n"):
        if doc.strip():
            print(f"---\n# Source: {path}\n{doc.strip()}")
