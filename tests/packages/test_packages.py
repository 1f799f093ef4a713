"""What is packaged, from outside: the install script, the steps of action.yml, the GitLab component and the manifests.

The scripts are run as runners run them, on a repository of the test's own, with a jobgate that is built already
(JOBGATE; without it, target/debug/jobgate) and nothing from a network. `.ci/workflows` runs this file.
"""

import hashlib
import http.server
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("JOBGATE", ROOT / "target/debug/jobgate")).resolve()
TARGET = {
    "Linux": f"{platform.machine()}-unknown-linux-gnu",
    "Darwin": f"{platform.machine().replace('arm64', 'aarch64')}-apple-darwin",
}[platform.system()]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: registry.example.com/train:1.4
        resources: {limits: {nvidia.com/gpu: 8}}
"""
GOOD = JOB.replace("spec:\n  template", "spec:\n  activeDeadlineSeconds: 86400\n  template", 1)


class Case(unittest.TestCase):
    def setUp(self):
        self.work = Path(tempfile.mkdtemp(prefix="jobgate-packages-"))
        self.addCleanup(shutil.rmtree, self.work)

    def directory(self, name):
        path = self.work / name
        path.mkdir(parents=True)
        return path


class Install(Case):
    """install.sh on releases made here."""

    def release(self, program=b"#!/bin/sh\necho jobgate 9.9.9\n", sums=None):
        release = self.work / "release"
        release.mkdir(exist_ok=True)
        name = f"jobgate-{TARGET}.tar.gz"
        with tarfile.open(release / name, "w:gz") as archive:
            entry = tarfile.TarInfo(f"jobgate-{TARGET}/jobgate")
            entry.size, entry.mode = len(program), 0o755
            archive.addfile(entry, io.BytesIO(program))
        self.sum = hashlib.sha256((release / name).read_bytes()).hexdigest()
        (release / "SHA256SUMS").write_text(f"{self.sum}  {name}\n" if sums is None else sums)
        return release

    def install(self, *arguments, shell="sh", path=None):
        environment = {"PATH": path or os.environ["PATH"], "HOME": str(self.work / "home")}
        return subprocess.run(
            [shell, str(ROOT / "deploy/packages/install.sh"), *arguments],
            env=environment, capture_output=True, text=True, cwd=self.work, check=False,
        )

    def installed(self):
        return sorted(path for path in self.work.rglob("*jobgate*") if path.is_file() and "release" not in path.parts)

    def test_a_release_is_installed_from_a_directory(self):
        release = self.release()
        done = self.install("--from", f"file://{release}", "--to", "bin")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = subprocess.run([self.work / "bin/jobgate"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "jobgate 9.9.9\n")
        self.assertEqual([path.name for path in self.installed()], ["jobgate"], "nothing is left beside it")

    def test_the_home_directory_is_the_default_and_an_older_program_is_replaced(self):
        for said in ("one", "two"):
            done = self.install("--from", f"file://{self.release(f'#!/bin/sh{chr(10)}echo {said}{chr(10)}'.encode())}")
            self.assertEqual(done.returncode, 0, done.stderr)
        program = self.work / "home/.local/bin/jobgate"
        self.assertEqual(subprocess.run([program], capture_output=True, text=True, check=True).stdout, "two\n")
        self.assertIn("is not in PATH", done.stderr)

    def test_a_release_is_installed_over_http(self):
        release = self.release()

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=str(release))

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            done = self.install("--from", f"http://127.0.0.1:{server.server_port}/", "--to", "bin")
            missing = self.install("--from", f"http://127.0.0.1:{server.server_port}/none", "--to", "other")
            server.shutdown()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.work / "bin/jobgate").exists())
        self.assertEqual(missing.returncode, 1)
        self.assertFalse((self.work / "other").exists())

    def refused(self, done, why):
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(why, done.stderr)
        self.assertEqual(self.installed(), [])

    def test_nothing_is_installed_unchecked(self):
        url = f"file://{self.release()}"
        self.refused(self.install("--from", url, "--to", "bin", "--sha256", "0" * 64), f"not {'0' * 64}")
        for sums, why in [
            ("", "has no checksum for"),
            (f"{'1' * 64}  jobgate-{TARGET}.tar.gz\n", "has the SHA-256"),
            # The archive's own sum, under names that only look like its name.
            (f"{self.sum}  jobgate-{TARGET}.tar.gz.old\n{self.sum}  x/jobgate-{TARGET}.tar.gz\n", "has no checksum for"),
        ]:
            (self.work / "release/SHA256SUMS").write_text(sums)
            self.refused(self.install("--from", url, "--to", "bin"), why)
        (self.work / "release/SHA256SUMS").unlink()
        self.refused(self.install("--from", url, "--to", "bin"), "SHA256SUMS")

    def test_a_changed_archive_is_not_unpacked(self):
        release = self.release()
        with open(release / f"jobgate-{TARGET}.tar.gz", "ab") as archive:
            archive.write(b"\0")
        self.refused(self.install("--from", f"file://{release}", "--to", "bin"), "nothing was installed")

    def test_without_a_program_for_checksums_nothing_is_installed(self):
        release = self.release()
        tools = self.directory("tools")
        for name in ("sh", "uname", "mktemp", "rm", "cp", "curl", "awk", "tar", "gzip", "mkdir", "chmod", "mv", "tr"):
            if found := shutil.which(name):
                (tools / name).symlink_to(found)
        done = self.install("--from", f"file://{release}", "--to", "bin", shell="/bin/sh", path=str(tools))
        self.refused(done, "needs sha256sum or shasum")

    def test_a_checksum_that_is_given_is_enough(self):
        release = self.release(sums="")
        done = self.install("--from", f"file://{release}", "--to", "bin", "--sha256", self.sum.upper())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_only_safe_urls_are_asked(self):
        self.release()
        for url in ("http://example.com/jobgate", "ftp://example.com", "-o/etc/passwd"):
            self.refused(self.install("--from", url, "--to", "bin"), "must be an https:// or file:// URL")

    def test_an_unknown_argument_and_a_missing_value_are_errors(self):
        for arguments, why in [(["--prefix", "x"], "unknown argument"), (["--to"], "needs a value")]:
            self.refused(self.install(*arguments), why)

    def test_help_names_every_option(self):
        said = self.install("--help").stdout
        for option in ("--version", "--to", "--from", "--sha256"):
            self.assertIn(f"  {option} ", said)


def expression(text, context):
    """What a runner puts in place of `${{ … }}` where it is a look-up."""
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: context[found.group(1)], text)


GH = """\
#!/bin/sh
# Stands in for gh: writes down what it is asked, and has one comment if the file `existing` is there.
printf '%s\\n' "$*" >>"$GH_LOG/calls"
case "$*" in
  *--jq*) if [ -f "$GH_LOG/existing" ]; then cat "$GH_LOG/existing"; fi ;;
  *body=@*) for word; do case "$word" in body=@*) cp "${word#body=@}" "$GH_LOG/body" ;; esac; done ;;
esac
if [ -f "$GH_LOG/denied" ]; then exit 1; fi
"""


class Action(Case):
    """The steps of action.yml, run as scripts."""

    def setUp(self):
        super().setUp()
        self.action = yaml.safe_load((ROOT / "action.yml").read_text())
        self.repository = self.directory("repository")
        self.runner = self.directory("runner")
        self.gh = self.directory("gh")
        tools = self.directory("tools")
        (tools / "gh").write_text(GH)
        (tools / "gh").chmod(0o755)
        self.tools = tools
        (self.repository / "k8s").mkdir()
        (self.repository / "k8s/train.yaml").write_text(JOB)

    def run_action(self, pull_request="", **inputs):
        """Runs the steps in order; returns the log, the code of each step by its name, and the outputs."""
        given = {name: str(spec.get("default", "")) for name, spec in self.action["inputs"].items()}
        given |= {"program": str(PROGRAM), "token": "none"} | inputs
        self.assertLessEqual(set(given), set(self.action["inputs"]), "inputs that there are")
        context = {f"inputs.{name}": value for name, value in given.items()}
        context |= {
            "github.action_path": str(ROOT),
            "github.event.pull_request.number": pull_request,
            "github.workflow": "lint; it's `bad` $(x)",
            "github.job": "lint",
        }
        summary = self.runner / "summary"
        log, codes, outputs = "", {}, {}
        for step in self.action["runs"]["steps"]:
            if step["name"] == "Comment" and not (given["comment"] == "true" and pull_request):
                continue
            output = self.runner / f"output-{step['name']}"
            output.write_text("")
            environment = {
                "PATH": f"{self.tools}:{os.environ['PATH']}",
                "HOME": str(self.work),
                "RUNNER_TEMP": str(self.runner),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                "GITHUB_REPOSITORY": "jobgate/sample",
                "GITHUB_ACTIONS": "true",
                "GH_LOG": str(self.gh),
            }
            environment |= {name: expression(text, context) for name, text in step.get("env", {}).items()}
            self.assertEqual(step["shell"], "bash")
            # As a runner does: bash --noprofile --norc -eo pipefail FILE
            script = self.runner / "script.sh"
            script.write_text(step["run"])
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
            done = subprocess.run(
                command, env=environment, cwd=self.repository, capture_output=True, text=True, check=False
            )
            log += done.stdout + done.stderr
            codes[step["name"]] = done.returncode
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                outputs[name] = value
                context[f"steps.{step.get('id')}.outputs.{name}"] = value
            if done.returncode and step["name"] != "Result":
                break
        self.summary = summary.read_text() if summary.exists() else ""
        return log, codes, outputs

    def test_no_input_is_text_of_a_script(self):
        for step in self.action["runs"]["steps"]:
            self.assertNotIn("${{", step["run"])

    def test_a_finding_is_annotated_summarized_and_in_the_sarif_file(self):
        log, codes, outputs = self.run_action(paths="k8s/")
        self.assertIn("::error file=k8s/train.yaml,line=4", log)
        self.assertIn("title=deadline", log)
        self.assertEqual(codes, {"Install jobgate": 0, "Lint": 0, "Result": 1})
        self.assertEqual(outputs["exit-code"], "1")
        sarif = json.loads((self.repository / outputs["sarif-file"]).read_text())
        self.assertEqual(sarif["version"], "2.1.0")
        results = sarif["runs"][0]["results"]
        self.assertIn("deadline", [result["ruleId"] for result in results])
        located = results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        self.assertEqual(located, "k8s/train.yaml")
        markdown = Path(outputs["markdown-file"]).read_text()
        self.assertIn("deadline", markdown)
        self.assertEqual(self.summary, markdown)
        self.assertFalse((self.gh / "calls").exists(), "no comment was asked for")

    def test_a_job_without_findings_passes(self):
        (self.repository / "k8s/train.yaml").write_text(GOOD)
        log, codes, outputs = self.run_action(paths="k8s/")
        self.assertEqual((codes["Result"], outputs["exit-code"]), (0, "0"), log)
        self.assertNotIn("::error", log)

    def test_the_policy_and_more_arguments_reach_the_linter(self):
        log, codes, _ = self.run_action(paths="k8s/train.yaml\n", policy="audit")
        self.assertEqual(codes["Result"], 0, log)
        self.assertIn("::warning file=k8s/train.yaml", log)
        log, codes, _ = self.run_action(paths="k8s/", policy="audit", args="--fail-on\nwarn\n--select=deadline")
        self.assertEqual(codes["Result"], 1, log)
        self.assertNotIn("gpu-toleration", log)

    def test_paths_with_spaces_dashes_and_shell_text_are_paths(self):
        for name in ("a b.yaml", "--fix.yaml", "$(touch hurt).yaml", "`touch hurt`.yaml", "x;touch hurt;.yaml", "'\".yaml"):
            (self.repository / name).write_text(JOB)
            log, codes, _ = self.run_action(paths=name)
            self.assertEqual(codes.get("Result"), 1, (name, log))
            self.assertIn("title=deadline", log)
        self.assertFalse((self.repository / "hurt").exists())
        self.assertEqual((self.repository / "--fix.yaml").read_text(), JOB)

    def test_without_paths_the_configuration_says_what_is_linted(self):
        (self.repository / "other").mkdir()
        (self.repository / "other/train.yaml").write_text(JOB.replace("name: train}", "name: other}"))
        subprocess.run([PROGRAM, "init"], cwd=self.repository, check=True, capture_output=True)
        # `jobgate init` starts with a policy that only warns.
        log, codes, _ = self.run_action(args="--fail-on=warn")
        self.assertEqual(codes["Result"], 1, log)
        self.assertIn("file=other/train.yaml", log)
        self.assertIn("file=k8s/train.yaml", log)

    def test_a_path_that_is_not_there_fails_and_the_report_says_so(self):
        log, codes, outputs = self.run_action(paths="none/")
        self.assertEqual((codes["Result"], outputs["exit-code"]), (2, "2"), log)
        sarif = json.loads((self.repository / outputs["sarif-file"]).read_text())
        self.assertFalse(sarif["runs"][0]["invocations"][0]["executionSuccessful"])

    def test_nothing_is_written_through_a_link_of_the_repository(self):
        victim = self.work / "victim"
        victim.write_text("mine\n")
        for name in ("jobgate.sarif", "jobgate.md", "jobgate-comment.md"):
            (self.repository / name).symlink_to("../victim")
        log, codes, outputs = self.run_action(paths="k8s/")
        self.assertEqual(outputs["exit-code"], "1", log)
        self.assertEqual(Path(outputs["sarif-file"]).parent, self.runner)
        self.assertIn("deadline", Path(outputs["sarif-file"]).read_text())
        # Nor where the user wants it to be in the checkout.
        log, codes, outputs = self.run_action(**{"paths": "k8s/", "sarif-file": "jobgate.sarif"})
        self.assertEqual(outputs["exit-code"], "2", log)
        self.assertEqual(victim.read_text(), "mine\n")
        self.assertEqual(log.count("it is a link"), 1, log)

    def test_the_configuration_of_the_repository_can_be_left_out(self):
        head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n"
        (self.repository / "jobgate.yaml").write_text(f"{head}ignore: ['*']\n")
        log, codes, _ = self.run_action(paths="k8s/")
        self.assertEqual(codes["Result"], 0, log)
        log, codes, _ = self.run_action(paths="k8s/", configuration="none")
        self.assertEqual(codes["Result"], 1, log)
        (self.work / "trusted.yaml").write_text(f"{head}failOn: deny\n")
        log, codes, _ = self.run_action(paths="k8s/", configuration="../trusted.yaml")
        self.assertEqual(codes["Result"], 1, log)

    def test_nothing_is_rendered_that_was_not_asked_for(self):
        calls = self.work / "calls"
        (self.tools / "kustomize").write_text(f'#!/bin/sh\necho "$*" >>"{calls}"\ncat "{self.repository}/k8s/train.yaml"\n')
        (self.tools / "kustomize").chmod(0o755)
        (self.repository / "k8s/kustomization.yaml").write_text("namespace: x\nresources: [train.yaml]\n")
        self.run_action(paths="k8s/")
        self.assertFalse(calls.exists())
        self.run_action(paths="k8s/", render="true")
        self.assertTrue(calls.exists())

    def test_a_wrong_argument_fails(self):
        _, codes, outputs = self.run_action(paths="k8s/", args="--no-such-thing")
        self.assertEqual((codes["Result"], outputs["exit-code"]), (2, "2"))

    def comment(self):
        return (self.gh / "calls").read_text().splitlines(), (self.gh / "body").read_text()

    def test_a_comment_is_made_and_found_again(self):
        log, codes, outputs = self.run_action(paths="k8s/", comment="true", pull_request="7")
        calls, body = self.comment()
        self.assertEqual(len(calls), 2, calls)
        self.assertIn("api --paginate repos/jobgate/sample/issues/7/comments", calls[0])
        self.assertIn("--method POST repos/jobgate/sample/issues/7/comments", calls[1])
        mark, _, rest = body.partition("\n")
        self.assertRegex(mark, r"^<!-- jobgate [A-Za-z0-9_./-]+ -->$")
        self.assertEqual(rest, Path(outputs["markdown-file"]).read_text())
        self.assertEqual(codes["Result"], 1)
        self.assertIn("comment of pull request 7", log)

        (self.gh / "calls").unlink()
        (self.gh / "existing").write_text("41\n42\n")
        self.run_action(paths="k8s/", comment="true", pull_request="7")
        calls, again = self.comment()
        self.assertIn("--method PATCH repos/jobgate/sample/issues/comments/41", calls[1])
        self.assertEqual(again, body)

    def test_only_comments_of_bots_with_the_mark_are_found(self):
        if not shutil.which("jq"):
            self.skipTest("no jq here")
        self.run_action(paths="k8s/", comment="true", pull_request="7")
        calls, body = self.comment()
        find = calls[0].partition("--jq ")[2]
        comments = [
            {"id": 1, "user": {"type": "User"}, "body": body},
            {"id": 2, "user": {"type": "Bot"}, "body": "something else"},
            {"id": 3, "user": {"type": "Bot"}, "body": body},
        ]
        found = subprocess.run(
            ["jq", find], input=json.dumps(comments), env=os.environ | {"mark": body.partition("\n")[0]},
            capture_output=True, text=True, check=True,
        )
        self.assertEqual(found.stdout, "3\n")

    def test_a_comment_that_is_denied_is_a_warning(self):
        (self.gh / "denied").touch()
        log, codes, _ = self.run_action(paths="k8s/", comment="true", pull_request="7")
        self.assertIn("::warning title=jobgate::The comment could not be written", log)
        self.assertEqual((codes["Comment"], codes["Result"]), (0, 1))

    def test_a_push_has_no_comment(self):
        _, codes, _ = self.run_action(paths="k8s/", comment="true")
        self.assertNotIn("Comment", codes)

    def test_without_a_program_the_release_of_the_actions_own_version_is_checked_and_installed(self):
        # A script in place of install.sh, in a copy of what the step reads.
        copy = self.directory("action/deploy/packages")
        (self.work / "action/Cargo.toml").write_text('[package]\nname = "jobgate"\nversion = "1.2.3"\nedition = "2024"\n')
        (copy / "install.sh").write_text(
            'echo "$@" >"$RUNNER_TEMP/asked"\nmkdir -p "$4"\nln -s "$REAL" "$4/jobgate"\n'
        )
        step = self.action["runs"]["steps"][0]
        for version, sha256, asked in [("", "", "1.2.3"), ("2.0.0", "ab", "2.0.0")]:
            shutil.rmtree(self.runner / "jobgate", ignore_errors=True)
            environment = {
                "PATH": os.environ["PATH"], "RUNNER_TEMP": str(self.runner), "REAL": str(PROGRAM),
                "GITHUB_OUTPUT": str(self.runner / "output"), "ACTION_PATH": str(self.work / "action"),
                "PROGRAM": "", "VERSION": version, "SHA256": sha256,
            }
            subprocess.run(["bash", "-c", step["run"]], env=environment, check=True, capture_output=True)
            expected = f"--version {asked} --to {self.runner}/jobgate" + (f" --sha256 {sha256}" if sha256 else "")
            self.assertEqual((self.runner / "asked").read_text().strip(), expected)
        self.assertIn(f"program={self.runner}/jobgate/jobgate", (self.runner / "output").read_text())


class Component(Case):
    """The GitLab component, with its inputs put in as GitLab does: as text."""

    def component(self, **inputs):
        spec, _, job = (ROOT / "templates/lint/template.yml").read_text().partition("\n---\n")
        declared = yaml.safe_load(spec)["spec"]["inputs"]
        values = {name: str(options.get("default", "")) for name, options in declared.items()} | inputs
        self.assertLessEqual(set(inputs), set(declared))
        filled = re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: values[found.group(1)], job)
        self.assertNotIn("$[[", filled)
        (name, job), = yaml.safe_load(filled).items()
        return name, job

    def run_job(self, **inputs):
        name, job = self.component(**inputs)
        repository = self.work / "repository"
        (repository / "k8s").mkdir(parents=True, exist_ok=True)
        (repository / "k8s/train.yaml").write_text(JOB)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.work)}
        environment |= {key: value["value"] if isinstance(value, dict) else str(value)
                        for key, value in job["variables"].items()}
        script = "set -eu\n" + "\n".join(job["script"])
        done = subprocess.run(
            ["sh", "-c", script], env=environment, cwd=repository, capture_output=True, text=True, check=False
        )
        return name, job, repository, done

    def test_the_report_is_where_the_merge_request_looks_for_it(self):
        name, job, repository, done = self.run_job(program=str(PROGRAM), paths="k8s/")
        self.assertEqual((name, done.returncode), ("jobgate", 1), done.stderr)
        report = job["artifacts"]["reports"]["codequality"]
        self.assertEqual(job["artifacts"]["when"], "always")
        found = json.loads((repository / report).read_text())
        self.assertIn("deadline", [finding["check_name"] for finding in found])

    def test_policy_and_arguments_reach_the_linter(self):
        *_, done = self.run_job(program=str(PROGRAM), paths="k8s/", policy="audit")
        self.assertEqual(done.returncode, 0, done.stderr)
        *_, done = self.run_job(program=str(PROGRAM), paths="k8s/", policy="audit", args="--fail-on warn")
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_nothing_is_written_through_a_link_of_the_repository(self):
        repository = self.work / "repository"
        repository.mkdir()
        (self.work / "victim").write_text("mine\n")
        (repository / "gl-code-quality-report.json").symlink_to("../victim")
        *_, done = self.run_job(program=str(PROGRAM), paths="k8s/")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual((self.work / "victim").read_text(), "mine\n")
        self.assertIn("deadline", (repository / "gl-code-quality-report.json").read_text())

    def test_the_configuration_of_the_repository_can_be_left_out(self):
        repository = self.work / "repository"
        repository.mkdir()
        head = "apiVersion: jobgate.dev/v1alpha1\nkind: Configuration\n"
        (repository / "jobgate.yaml").write_text(f"{head}ignore: ['*']\n")
        *_, done = self.run_job(program=str(PROGRAM), paths="k8s/")
        self.assertEqual(done.returncode, 0, done.stderr)
        *_, done = self.run_job(program=str(PROGRAM), paths="k8s/", configuration="none")
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_a_download_without_the_right_checksum_is_not_run(self):
        tools = self.directory("tools")
        # Downloads something that would say that it was run.
        (tools / "wget").write_text('#!/bin/sh\nwhile [ "$1" != -O ]; do shift; done\necho evil >"$2"\n')
        (tools / "wget").chmod(0o755)
        os.environ["PATH"], before = f"{tools}:{os.environ['PATH']}", os.environ["PATH"]
        try:
            for sha256 in ("", "0" * 64):
                *_, repository, done = self.run_job(version="0.1.0", sha256=sha256)
                self.assertNotEqual(done.returncode, 0)
                self.assertFalse((repository / "gl-code-quality-report.json").exists())
        finally:
            os.environ["PATH"] = before


class Manifests(Case):
    """The krew manifest and the Homebrew formula of given archives."""

    TARGETS = [
        "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
    ]

    def write(self, targets):
        lines = [f"{number:064x}  jobgate-{target}.tar.gz\n" for number, target in enumerate(targets, 1)]
        (self.work / "SHA256SUMS").write_text("".join(lines))
        command = [ROOT / "deploy/packages/manifests", "v1.2.3", "https://example.com/x/", self.work]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_krew_has_each_platform_with_its_checksum(self):
        self.assertEqual(self.write(self.TARGETS).returncode, 0)
        manifest = yaml.safe_load((self.work / "krew.yaml").read_text())
        self.assertEqual(manifest["metadata"]["name"], "jobgate")
        self.assertEqual(manifest["spec"]["version"], "v1.2.3")
        self.assertLessEqual(len(manifest["spec"]["shortDescription"]), 50)
        platforms = manifest["spec"]["platforms"]
        self.assertEqual(len(platforms), 5)
        for number, (target, platform_) in enumerate(zip(self.TARGETS, platforms), 1):
            self.assertEqual(platform_["uri"], f"https://example.com/x/jobgate-{target}.tar.gz")
            self.assertEqual(platform_["sha256"], f"{number:064x}")
            self.assertEqual(platform_["files"][0]["from"], f"jobgate-{target}/{platform_['bin']}")
        self.assertEqual(platforms[4]["bin"], "jobgate.exe")

    def test_the_formula_has_each_system_that_homebrew_knows(self):
        self.assertEqual(self.write(self.TARGETS).returncode, 0)
        formula = (self.work / "jobgate.rb").read_text()
        for number, target in enumerate(self.TARGETS[:4], 1):
            self.assertRegex(formula, rf'url "https://example.com/x/jobgate-{target}.tar.gz"\n\s+sha256 "{number:064x}"')
        self.assertNotIn("windows", formula)
        opened = re.findall(r"^ *(?:class|def) | do$", formula, re.M)
        self.assertEqual(len(opened), len(re.findall(r"^ *end$", formula, re.M)))
        if shutil.which("ruby"):
            subprocess.run(["ruby", "-c", self.work / "jobgate.rb"], check=True, capture_output=True)

    def test_a_platform_without_an_archive_is_left_out(self):
        self.assertEqual(self.write(self.TARGETS[:1]).returncode, 0)
        self.assertEqual(len(yaml.safe_load((self.work / "krew.yaml").read_text())["spec"]["platforms"]), 1)
        self.assertNotIn("on_macos", (self.work / "jobgate.rb").read_text())
        self.assertNotEqual(self.write([]).returncode, 0)


class Files(unittest.TestCase):
    """Files that say the same thing must agree."""

    def version(self):
        return re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)

    def test_one_version(self):
        manifest = (ROOT / "Cargo.toml").read_text()
        crates = re.findall(r'^jobgate-\w+ = .*version = "=([^"]+)"', manifest, re.M)
        self.assertEqual(set(crates), {self.version()})
        chart = yaml.safe_load((ROOT / "deploy/helm/jobgate/Chart.yaml").read_text())
        self.assertEqual((chart["version"], chart["appVersion"]), (self.version(), self.version()))
        mirror = (ROOT / "deploy/packages/pre-commit/pyproject.toml").read_text()
        self.assertIn(f'"jobgate=={self.version()}"', mirror)

    def test_the_image_is_built_from_all_that_is_part_of_the_program(self):
        lines = (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines()
        self.assertEqual(lines[0], "*")
        sent = [ROOT / line[1:] for line in lines[1:]]
        included = set()
        for file in [*ROOT.glob("src/**/*.rs"), *ROOT.glob("crates/*/src/**/*.rs")]:
            if file.name == "tests.rs":
                continue
            # Tests at the end of a file are not built.
            text = file.read_text().partition("#[cfg(test)]")[0]
            # A path may be put together from parts, the first of which is a directory.
            for path in re.findall(r'include_(?:str|bytes)!\((?:concat!\()?\s*"([^"]+)"', text):
                included.add((file.parent / path).resolve())
        self.assertIn(ROOT / "docs/topics", included)
        for path in included:
            self.assertTrue(path.exists(), path)
            self.assertTrue(any(path == one or one in path.parents for one in sent), path)
        # The other packages of the workspace, without which cargo builds none.
        self.assertIn(ROOT / "crates", sent)
        self.assertIn(ROOT / "xtask", sent)
        # And what the recipe itself calls.
        self.assertIn(ROOT / "deploy", sent)

    def test_the_charts_page_has_its_values_and_no_others(self):
        chart = ROOT / "deploy/helm/jobgate"
        values = yaml.safe_load((chart / "values.yaml").read_text())
        named = set()
        for line in (chart / "README.md").read_text().splitlines():
            if line.startswith("| `"):
                named |= set(re.findall(r"`([\w.]+)`", line.split("|")[1]))
        for name in named:
            value = values
            for part in name.split("."):
                self.assertIn(part, value, name)
                value = value[part]
        self.assertEqual({name.split(".")[0] for name in named}, set(values))
        for name, value in values.items():
            # A value with parts has a row for each, unless its parts are those of any component.
            if isinstance(value, dict) and name not in named:
                self.assertEqual({f"{name}.{part}" for part in value}, {n for n in named if n.startswith(f"{name}.")})

    def test_nothing_claims_to_be_published(self):
        # Until it is: pages that show how to take a release say that there is none.
        for name in ("README.md", "docs/packages.md", "docs/install.md", "docs/ci.md", "CHANGELOG.md"):
            text = " ".join((ROOT / name).read_text().split())
            self.assertRegex(text, r"(?i)(no|nothing)\b[^.]*\bis published yet", name)
        for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]:
            text = page.read_text()
            for claim in ("pip install jobgate", "brew install jobgate", "docker pull ", "krew install jobgate",
                          "cargo install jobgate", "cargo binstall jobgate", "uses: jobgate/jobgate@v"):
                self.assertNotIn(claim, text, page.name)

    def test_actions_are_pinned_by_hash_and_say_their_version(self):
        files = [*ROOT.glob(".github/workflows/*.yml"), ROOT / "action.yml", *ROOT.glob("docs/*.md"), ROOT / "README.md"]
        uses = [(file.name, line.strip()) for file in files for line in file.read_text().splitlines()
                if re.match(r"\s*(- )?uses: (?!\./)", line)]
        self.assertGreater(len(uses), 15)
        for file, line in uses:
            # Our own action has no release to pin yet.
            if "jobgate/jobgate" in line:
                continue
            self.assertRegex(line, r"uses: [\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$", file)

    def test_one_hash_for_each_action(self):
        pinned = {}
        for file in [*ROOT.glob(".github/workflows/*.yml"), *ROOT.glob("docs/*.md")]:
            for action, pin in re.findall(r"uses: ([\w-]+/[\w-]+)[\w/-]*@([0-9a-f]{40} # \S+)", file.read_text()):
                self.assertEqual(pinned.setdefault(action, pin), pin, f"{action} in {file.name}")

    def test_the_released_targets_are_the_same_everywhere(self):
        release = (ROOT / ".github/workflows/release.yml").read_text()
        for target in Manifests.TARGETS:
            for name in (".ci/licences", "deny.toml", "deploy/packages/manifests"):
                self.assertIn(target, (ROOT / name).read_text(), name)
            self.assertIn(f"target: {target}", release)


if __name__ == "__main__":
    unittest.main()
