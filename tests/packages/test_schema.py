"""What `.ci/schema` makes of a CustomResourceDefinition. `.ci/workflows` runs this file."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def version(name, spec):
    """Returns a version of a kind with a spec."""
    properties = {"metadata": {"type": "object"}, "spec": spec, "status": {"type": "object", "properties": {"a": {}}}}
    return {"name": name, "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}


def made(versions, *arguments):
    """Returns the schema that is printed for a definition with some versions."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "crd.json"
        file.write_text(json.dumps({"spec": {"versions": versions}}), encoding="utf-8")
        command = [sys.executable, ROOT / ".ci/schema", file, *arguments]
        return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


class Schema(unittest.TestCase):
    def test_types_required_fields_and_defaults_are_kept(self):
        spec = {
            "type": "object",
            "description": "what no rule reads",
            "required": ["template"],
            "properties": {
                "replicas": {"type": "integer", "format": "int32", "default": 1, "minimum": 0},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
                "template": {"properties": {"spec": {"required": ["containers"], "properties": {"containers": {}}}}},
            },
        }
        schema = made([version("v1", spec)])
        self.assertEqual(
            schema["properties"]["spec"],
            {
                "type": "object",
                "required": ["template"],
                "properties": {
                    "free": {"type": "object"},
                    "replicas": {"type": "integer", "format": "int32", "default": 1},
                    "template": {"$ref": "#/$defs/io.k8s.api.core.v1.PodTemplateSpec"},
                },
            },
        )
        self.assertEqual(schema["properties"]["status"], {"type": "object"})
        self.assertIn("ObjectMeta", schema["properties"]["metadata"]["$ref"])

    def test_a_version_can_be_named(self):
        versions = [version("v1", {"type": "object"}), version("v2", {"type": "string"})]
        self.assertEqual(made(versions)["properties"]["spec"], {"type": "object"})
        self.assertEqual(made(versions, "v2")["properties"]["spec"], {"type": "string"})


if __name__ == "__main__":
    unittest.main()
