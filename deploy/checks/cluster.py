"""Validation of the objects: schemas of Kubernetes, and checkov."""

import functools
import json
import os
import pathlib
import subprocess
import tempfile

import kubernetes_validate

from rendering import DEPLOY

VERSIONS = ["1.31", "1.34", "1.37"]
# Defined by the Prometheus operator, whose schemas kubernetes-validate does not have.
CUSTOM_KINDS = {"ServiceMonitor"}


def schemas(rendering):
    """Every object is valid, with no unknown field, in three versions of Kubernetes."""
    for version in VERSIONS:
        for it in rendering.objects:
            validate(json.dumps(it), version)


@functools.cache
def validate(object, version):
    it = json.loads(object)
    try:
        used = kubernetes_validate.validate(it, version, strict=True)
    except kubernetes_validate.SchemaNotFoundError:
        assert it["kind"] in CUSTOM_KINDS, f"no schema for {it['kind']} in {version}"
    except kubernetes_validate.ValidationError as error:
        # The text of the error contains the whole schema.
        raise AssertionError(f"{it['kind']} {it['metadata']['name']}: {error.message}") from None
    else:
        assert used == version, f"{used} instead of {version}"


def checkov(renderings):
    """checkov has no finding. checkov.yaml lists the skipped checks with reasons."""
    with tempfile.TemporaryDirectory() as folder:
        for it in renderings:
            (pathlib.Path(folder) / f"{it.name.replace(' ', '-')}.yaml").write_text(it.text)
        options = ["--config-file", str(DEPLOY / "checkov.yaml"), "--directory", folder, "-o", "json"]
        run = subprocess.run([os.environ["CHECKOV"], *options], capture_output=True, text=True, timeout=120)
    report = json.loads(run.stdout)
    failed = [f"{it['check_id']} {it['check_name']}: {it['file_path']} {it['resource']}"
              for it in report["results"]["failed_checks"]]
    assert run.returncode == 0 and not failed, "\n".join([*failed, run.stderr])
    summary = report["summary"]
    assert summary["parsing_errors"] == 0 and summary["passed"] > 300, summary


CHECKS = {"objects are valid in three versions of Kubernetes": schemas}
