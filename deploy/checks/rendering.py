"""Renderings of the overlays by kubectl, and of the chart by Helm."""

import functools
import os
import pathlib
import subprocess

import helm_python
import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
REPO = DEPLOY.parent
CHART = DEPLOY / "helm" / "hookgate"
GOLDEN = DEPLOY / "helm" / "golden"
VALUES = DEPLOY / "helm" / "values"
# Name of each golden file, and the values files that it is rendered with.
RELEASES = {"default": [], "replicas": ["replicas"], "no-bypass": ["replicas", "no-bypass"]}


class Rendering:
    """The objects of an overlay or of a release of the chart."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.objects = [it for it in yaml.safe_load_all(text) if it]

    def all(self, kind):
        return [it for it in self.objects if it["kind"] == kind]

    def one(self, kind, name=None):
        [found] = [it for it in self.all(kind) if name in (None, it["metadata"]["name"])]
        return found

    def pod(self):
        return self.one("Deployment")["spec"]["template"]["spec"]

    def gateway(self):
        """The container of the gateway."""
        pod = self.pod()
        [found] = [it for it in [*pod.get("initContainers", []), *pod["containers"]] if it["name"] == "hookgate"]
        return found

    def config(self):
        """The gateway's config as text."""
        return self.one("ConfigMap", "hookgate")["data"]["hookgate.yaml"]


class Kustomize:
    FOLDERS = {
        "base": "base",
        "overlay replicas": "overlays/replicas",
        "overlay sidecar": "overlays/sidecar",
        "overlay no-bypass": "overlays/no-bypass",
    }

    @staticmethod
    @functools.cache
    def run(folder):
        command = [os.environ["KUBECTL"], "kustomize", str(DEPLOY / "kubernetes" / folder)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stderr
        return run

    @classmethod
    def render(cls, name):
        return Rendering(name, cls.run(cls.FOLDERS[name]).stdout)

    @classmethod
    def has_no_warnings(cls):
        for folder in cls.FOLDERS.values():
            assert not cls.run(folder).stderr, cls.run(folder).stderr


class Helm:
    @staticmethod
    def values(release):
        """The values of a release, merged as Helm merges values files."""
        merged = {}
        for name in RELEASES[release]:
            merge(merged, yaml.safe_load((VALUES / f"{name}.yaml").read_text()))
        return merged

    @classmethod
    @functools.cache
    def text(cls, release):
        with helm_python.Chart.load(str(CHART)) as chart:
            files = chart.render(cls.values(release), name="hookgate", namespace="hookgate")
        manifests = {path: text for path, text in sorted(files.items()) if path.endswith(".yaml") and text.strip()}
        return "".join(f"---\n# Source: {path}\n{text.strip()}\n" for path, text in manifests.items())

    @classmethod
    def render(cls, release):
        return Rendering(f"chart {release}", cls.text(release))

    @classmethod
    def compare_with_golden(cls):
        for release in RELEASES:
            golden = GOLDEN / f"{release}.yaml"
            if os.environ.get("UPDATE"):
                golden.write_text(cls.text(release))
            assert cls.text(release) == golden.read_text(), f"{golden} differs; UPDATE=1 updates it"
        assert {it.stem for it in GOLDEN.iterdir()} == set(RELEASES)

    @classmethod
    def lint(cls):
        for release in RELEASES:
            report = helm_python.lint(str(CHART), cls.values(release), strict=True)
            # Severity 1 is information: the chart has no icon.
            findings = [it for it in report["messages"] if it["severity"] != 1]
            assert report["total_charts_linted"] == 1 and not findings and not report["errors"], report

    @staticmethod
    def reject_invalid_values():
        invalid = [
            {"autoscaling": {"minReplicas": 1}},
            {"autoscaling": {"minimum": 3}},
            {"service": {"sessionAffinity": "Cookie"}},
            {"files": {"hookgate.yaml": "listen: 0.0.0.0:1"}},
            {"networkPolicies": {"enabled": True}},
            {"config": "listen: 0.0.0.0:8787"},
        ]
        with helm_python.Chart.load(str(CHART)) as chart:
            chart.validate_schema(chart.merge_values({}))
            for values in invalid:
                try:
                    chart.validate_schema(chart.merge_values(values))
                except helm_python.HelmError:
                    continue
                raise AssertionError(f"accepted: {values}")


def merge(into, other):
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


@functools.cache
def renderings():
    return [*map(Kustomize.render, Kustomize.FOLDERS), *map(Helm.render, RELEASES)]
