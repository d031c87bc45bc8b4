"""Runs every check and prints what failed."""

import sys
import time

import cluster
import doctor
import firewall
import manifests
from rendering import Helm, Kustomize, renderings


def main():
    began = time.monotonic()
    checks = {
        "every rendering of the chart is that of its golden file": Helm.compare_with_golden,
        "the chart has no finding of a linter": Helm.lint,
        "the chart refuses values that its schema does not have": Helm.refuse_wrong_values,
        "the chart and the base are the same objects": manifests.chart_equals_base,
        "files that are written twice are equal": manifests.copies_are_equal,
        "the overlay of the documentation renders": manifests.documented_overlay_renders,
        "kubectl knows every field of a kustomization": Kustomize.has_no_warnings,
    }
    for rendering in renderings():
        for name, check in {**cluster.CHECKS, **manifests.CHECKS}.items():
            checks[f"{rendering.name}: {name}"] = lambda check=check, rendering=rendering: check(rendering)
    checks["checkov finds nothing"] = lambda: cluster.checkov(renderings())
    checks.update(firewall.CHECKS)
    checks.update(doctor.CHECKS)
    failed = sum(not passes(name, check) for name, check in checks.items())
    print(f"{len(checks) - failed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def passes(name, check):
    try:
        check()
    except Exception as error:  # every check counts, whatever it dies of
        print(f"not ok - {name}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"ok - {name}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
