"""Consistency of the manifests' settings with each other and with the gateway's config."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap

import yaml

from rendering import REPO, Helm, Kustomize, Rendering

KEYS = "/etc/hookgate-keys"
# Time in which hooks and workers stop after `drain` (docs/operating.md, "Shutdown"), in seconds.
HOOK_STOP_SECONDS = 5
# Defaults of `proof.total_timeout` and `timeouts.drain`, in seconds.
PROOF_SECONDS, DRAIN_SECONDS = 45, 30
# Memory of a session, and the minimum for all sessions, in bytes (docs/operating.md, "Session store").
SESSION_BYTES, MIN_SESSIONS_BYTES = 16 * 1024, 64 << 20
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * UNITS[unit]


def byte_count(text):
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)B?", text).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30}[unit]


def config_is_accepted(rendering):
    """`hookgate check` accepts the config with a file for each key, and refuses it without one of them."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        keys = set(re.findall(rf"{KEYS}/([-\w]+)", strip_comments(rendering.config())))
        assert {"admin-token", "metrics-token", "gemini"} <= keys, keys
        for key in keys:
            text = "redis://127.0.0.1:6379" if key == "redis-url" else f"only-for-this-check-{key}"
            (folder / key).write_text(text)
        config = folder / "hookgate.yaml"
        config.write_text(rendering.config().replace(KEYS, str(folder)))
        accepted = run_check(config)
        assert accepted.returncode == 0, accepted.stdout + accepted.stderr
        (folder / "gemini").unlink()
        refused = run_check(config)
        assert refused.returncode == 78 and "gemini" in refused.stdout + refused.stderr, refused


def run_check(config):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
    binary = pathlib.Path(os.environ.get("HOOKGATE", target / "debug" / "hookgate")).resolve()
    return subprocess.run([binary, "check", config], capture_output=True, text=True, timeout=60)


def strip_comments(text):
    return re.sub(r"(?m)(^|\s)#.*$", "", text)


def shutdown_fits_the_grace_period(rendering):
    """The grace period covers `lame_duck`, `drain` and the stop of hooks."""
    config, pod = yaml.safe_load(rendering.config()), rendering.pod()
    lame_duck = seconds(config["timeouts"].get("lame_duck", "0s"))
    drain = seconds(config["timeouts"].get("drain", f"{DRAIN_SECONDS}s"))
    assert pod["terminationGracePeriodSeconds"] >= lame_duck + drain + HOOK_STOP_SECONDS, (lame_duck, drain)
    if rendering.all("Service"):
        probe = rendering.gateway()["readinessProbe"]
        detected = probe["periodSeconds"] * probe["failureThreshold"]
        assert lame_duck > detected, f"`lame_duck` ends before the probe fails, after {detected} s"


def probes_use_the_admin_port(rendering):
    """Probes use the paths and the port of the config. Services use named ports of the container."""
    config, container = yaml.safe_load(rendering.config()), rendering.gateway()
    ports = {it["name"]: it["containerPort"] for it in container["ports"]}
    address, admin = config["admin"]["listen"].split(":")
    assert address == "0.0.0.0" and ports["admin"] == int(admin), "the kubelet does not reach the admin port"
    paths = {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "admin"}, container[probe]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > PROOF_SECONDS, startup
    listen = int(config["listen"].split(":")[1])
    for service in rendering.all("Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"], port
            assert port["port"] == (listen if port["name"] == "agents" else int(admin)), port


def memory_fits_the_limit(rendering):
    """Buffers, as much again for parsing, and sessions fit into the container's limit."""
    config = yaml.safe_load(rendering.config())
    limit = byte_count(rendering.gateway()["resources"]["limits"]["memory"])
    sessions = max(MIN_SESSIONS_BYTES, config["sessions"]["max"] * SESSION_BYTES)
    assert limit >= 2 * byte_count(config["limits"]["memory"]) + sessions, (limit, sessions)


def containers_are_confined(rendering):
    """No service account token, no root, no capability, and no writable volumes but temporary ones."""
    pod = rendering.pod()
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    volumes = {it["name"]: it for it in pod["volumes"]}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True and context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        for mount in container["volumeMounts"]:
            assert "subPath" not in mount, "a subPath mount receives no updates"
            assert mount.get("readOnly") or "emptyDir" in volumes[mount["name"]], mount
        keys = [it["name"] for it in container["volumeMounts"] if "secret" in volumes[it["name"]]]
        assert keys == (["keys"] if container["name"] == "hookgate" else []), f"{container['name']} reads the keys"
    assert volumes["keys"]["secret"]["defaultMode"] == 0o440


def selectors_match_their_pods(rendering):
    """Each selector matches the labels of its pods."""
    deployment = rendering.one("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [it["spec"]["selector"] for it in rendering.all("Service")]
    selectors += [it["spec"]["selector"]["matchLabels"] for it in rendering.all("PodDisruptionBudget")]
    selectors += [it["labelSelector"]["matchLabels"] for it in rendering.pod()["topologySpreadConstraints"]]
    for selector in selectors:
        assert selector and selector.items() <= labels.items(), selector
    for monitor in rendering.all("ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"]
        [service] = [it for it in rendering.all("Service") if selector.items() <= it["metadata"]["labels"].items()]
        assert [it["port"] for it in monitor["spec"]["endpoints"]] == [it["name"] for it in service["spec"]["ports"]]


def two_gateways_or_more(rendering):
    """At least two gateways, of which one at a time may be disrupted."""
    if not rendering.all("Service"):  # a sidecar: one gateway for each agent
        return
    deployment, scaler = rendering.one("Deployment"), rendering.one("HorizontalPodAutoscaler")
    assert "replicas" not in deployment["spec"], "each `apply` would reset the autoscaler's replicas"
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaler["spec"]["minReplicas"] >= 2
    assert rendering.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    shared = "store" in yaml.safe_load(rendering.config())["sessions"]
    assert (rendering.one("Service", "hookgate")["spec"]["sessionAffinity"] == "None") == shared


def agents_reach_only_gateways(rendering):
    """In `no-bypass`, pods of the agents' namespace reach only gateways and DNS."""
    policies = {it["metadata"]["name"]: it for it in rendering.all("NetworkPolicy")}
    assert bool(policies) == ("no-bypass" in rendering.name or "sidecar" in rendering.name)
    if "no-bypass" not in rendering.name:
        return
    agents, gateways = policies["only-hookgate"], policies["hookgate"]
    assert agents["metadata"]["namespace"] == "agents" and agents["spec"]["podSelector"] == {}
    assert agents["spec"]["policyTypes"] == ["Ingress", "Egress"] and agents["spec"]["ingress"] == []
    to_gateways, to_dns = agents["spec"]["egress"]
    [peer] = to_gateways["to"]
    labels = rendering.one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert peer["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "hookgate"}
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    assert to_gateways["ports"] == [{"protocol": "TCP", "port": 8787}]
    assert {it["port"] for it in to_dns["ports"]} == {53} and "podSelector" in to_dns["to"][0]
    assert gateways["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    ingress_peers = {it["ports"][0]["port"]: it["from"] for it in gateways["spec"]["ingress"]}
    assert ingress_peers[8787] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agents"}}}]
    assert {it["ports"][0]["port"] for it in gateways["spec"]["egress"]} == {53, 6379, 443}


def chart_equals_overlays():
    """The chart's objects equal those of the overlays, except for labels."""
    releases = {"base": "default", "overlay replicas": "replicas", "overlay no-bypass": "no-bypass"}
    for overlay, release in releases.items():
        overlay_objects, chart_objects = comparable(Kustomize.render(overlay)), comparable(Helm.render(release))
        del overlay_objects["ServiceMonitor hookgate"]  # the chart omits it by default
        assert overlay_objects.keys() == chart_objects.keys(), overlay_objects.keys() ^ chart_objects.keys()
        for name, object in overlay_objects.items():
            assert object == chart_objects[name], f"{name}: {object}\n{chart_objects[name]}"


def comparable(rendering):
    objects = {}
    for it in rendering.objects:
        if it["kind"] == "Namespace":  # Helm creates its own
            continue
        if it["kind"] == "ConfigMap":
            it = {**it, "data": {name: yaml.safe_load(text) for name, text in it["data"].items()}}
        objects[f"{it['kind']} {it['metadata']['name']}"] = without_labels(it)
    return objects


def without_labels(it):
    """Removes the labels that only Helm sets."""
    if isinstance(it, list):
        return [without_labels(each) for each in it]
    if not isinstance(it, dict):
        return it
    ignored = {"labels", "app.kubernetes.io/instance"}
    return {key: without_labels(value) for key, value in it.items() if key not in ignored}


def versions_and_copies_are_equal():
    """The crate, the image and the chart have one version. The sidecar has the agent variables of a laptop."""
    version = re.search(r'(?m)^version = "(.+)"$', (REPO / "Cargo.toml").read_text()).group(1)
    for rendering in [*map(Kustomize.render, Kustomize.FOLDERS), Helm.render("default")]:
        assert rendering.gateway()["image"] == f"hookgate:{version}", rendering.gateway()["image"]
    chart = yaml.safe_load((REPO / "deploy/helm/hookgate/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    variables = (REPO / "config/agents/pointed/gemini-cli.api-key.env").read_text()
    assert (REPO / "deploy/kubernetes/overlays/sidecar/agent.env").read_text() == variables


def documented_overlay_renders():
    """The overlay of docs/kubernetes.md changes the image and the config."""
    text = (REPO / "docs/kubernetes.md").read_text()
    overlay = re.search(r"```ya?ml\n *# kustomization.yaml\n(.+?)```", text, re.DOTALL).group(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(REPO / "deploy/kubernetes", folder / "hookgate/deploy/kubernetes")
        (folder / "kustomization.yaml").write_text(textwrap.dedent(overlay))
        (folder / "hookgate.yaml").write_text("# mine\n")
        (folder / "guard.sh").write_text("exit 2\n")
        rendering = Rendering("documented", Kustomize.run(folder).stdout)
    assert rendering.one("ConfigMap", "hookgate")["data"] == {"hookgate.yaml": "# mine\n", "guard.sh": "exit 2\n"}
    assert rendering.gateway()["image"].startswith("registry.example/hookgate:")
    assert rendering.pod()["volumes"][0]["configMap"]["name"] == "hookgate"


CHECKS = {
    "`hookgate check` accepts its config": config_is_accepted,
    "shutdown fits the grace period": shutdown_fits_the_grace_period,
    "probes use the admin port": probes_use_the_admin_port,
    "memory fits the limit": memory_fits_the_limit,
    "containers are confined": containers_are_confined,
    "selectors match their pods": selectors_match_their_pods,
    "at least two gateways": two_gateways_or_more,
    "agents reach only gateways": agents_reach_only_gateways,
}
