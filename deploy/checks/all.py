"""Runs every check and prints its result."""

import sys
import time

import cluster
import doctor
import firewall
import manifests
from rendering import Helm, Kustomize, renderings


def main():
    started = time.monotonic()
    checks = {
        "every rendering of the chart equals its golden file": Helm.compare_with_golden,
        "the chart passes helm lint": Helm.lint,
        "the chart's schema rejects invalid values": Helm.reject_invalid_values,
        "the chart and the overlays have equal objects": manifests.chart_equals_overlays,
        "versions and copied files are equal": manifests.versions_and_copies_are_equal,
        "the overlay of the documentation renders": manifests.documented_overlay_renders,
        "kubectl warns of no field of a kustomization": Kustomize.has_no_warnings,
    }
    for rendering in renderings():
        for name, check in {**cluster.CHECKS, **manifests.CHECKS}.items():
            checks[f"{rendering.name}: {name}"] = lambda check=check, rendering=rendering: check(rendering)
    checks["checkov finds nothing"] = lambda: cluster.checkov(renderings())
    checks.update(firewall.CHECKS)
    checks.update(doctor.CHECKS)
    failed = sum(not passes(name, check) for name, check in checks.items())
    print(f"{len(checks) - failed} passed, {failed} failed in {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


def passes(name, check):
    try:
        check()
    except Exception as error:  # any exception fails the check and not the run
        print(f"not ok - {name}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"ok - {name}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
