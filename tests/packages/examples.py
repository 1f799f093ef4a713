"""Writes each GitHub workflow of the pages, and each list of steps as a workflow, into DIRECTORY/.github/workflows."""

import re
import sys
import textwrap
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]

STEPS = """\
name: example
on: [push, pull_request]
permissions:
  contents: read
jobs:
  lint:
    runs-on: ubuntu-latest
    # Steps of several examples, and what each needs is said beside it.
    permissions:
      contents: read
      pull-requests: write # for comments
    steps:
"""


def examples(text):
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S):
        values = list(yaml.safe_load_all(block))
        value = values[0] if len(values) == 1 else None
        if isinstance(value, dict) and "jobs" in value:
            yield block
        elif isinstance(value, list) and all(isinstance(step, dict) and {"run", "uses"} & set(step) for step in value):
            yield STEPS + textwrap.indent(textwrap.dedent(block), "      ")


def main():
    directory = Path(sys.argv[1]) / ".github/workflows"
    directory.mkdir(parents=True)
    count = 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for example in examples(page.read_text(encoding="utf-8")):
            count += 1
            # The reader's to replace, by a commit.
            example = example.replace("REVISION", "0" * 40)
            (directory / f"{page.stem}-{count}.yml").write_text(example, encoding="utf-8")
    if count < 5:
        sys.exit(f"only {count} examples were found in the pages")


if __name__ == "__main__":
    main()
