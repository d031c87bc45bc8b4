"""What the manifests promise: that settings fit each other and the gateway's config."""

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
# Time for hooks and workers to end after `drain` (docs/operating.md, "Shutdown"), in seconds.
HOOKS_END = 5
# `proof.total_timeout` and `timeouts.drain` where the config has none, in seconds.
PROOFS, DRAIN = 45, 30
# Memory of a session, in bytes, and the least of all of them (docs/operating.md, "Session store").
SESSION, SESSIONS = 16 * 1024, 64 << 20
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * UNITS[unit]


def size(text):
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)B?", text).groups()
    return int(number) << {"Ki": 10, "Mi": 20, "Gi": 30}[unit]


def config_is_accepted(rendering):
    """`hookgate check` takes the config, with a file for each key, and refuses it without one."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        keys = set(re.findall(rf"{KEYS}/([-\w]+)", strip_comments(rendering.config())))
        assert {"admin-token", "metrics-token", "gemini"} <= keys, keys
        for key in keys:
            text = "redis://127.0.0.1:6379" if key == "redis-url" else f"only-for-this-check-{key}"
            (folder / key).write_text(text)
        config = folder / "hookgate.yaml"
        config.write_text(rendering.config().replace(KEYS, str(folder)))
        accepted = check(config)
        assert accepted.returncode == 0, accepted.stdout + accepted.stderr
        (folder / "gemini").unlink()
        refused = check(config)
        assert refused.returncode == 78 and "gemini" in refused.stdout + refused.stderr, refused


def check(config):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
    binary = pathlib.Path(os.environ.get("HOOKGATE", target / "debug" / "hookgate")).resolve()
    return subprocess.run([binary, "check", config], capture_output=True, text=True, timeout=60)


def strip_comments(text):
    return re.sub(r"(?m)(^|\s)#.*$", "", text)


def shutdown_fits(rendering):
    """The pod is killed only after `lame_duck`, `drain` and the end of hooks."""
    config, pod = yaml.safe_load(rendering.config()), rendering.pod()
    lame_duck = seconds(config["timeouts"].get("lame_duck", "0s"))
    drain = seconds(config["timeouts"].get("drain", f"{DRAIN}s"))
    assert pod["terminationGracePeriodSeconds"] >= lame_duck + drain + HOOKS_END, (lame_duck, drain)
    if rendering.all("Service"):
        probe = rendering.gateway()["readinessProbe"]
        seen = probe["periodSeconds"] * probe["failureThreshold"]
        assert lame_duck > seen, f"`lame_duck` is over before the probe has failed, after {seen} s"


def probes_ask_the_gateway(rendering):
    """Probes use the paths and the port of the config; ports have the names that are used."""
    config, container = yaml.safe_load(rendering.config()), rendering.gateway()
    ports = {it["name"]: it["containerPort"] for it in container["ports"]}
    address, admin = config["admin"]["listen"].split(":")
    assert address == "0.0.0.0" and ports["admin"] == int(admin), "the kubelet does not reach the admin port"
    paths = {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    for probe, path in paths.items():
        assert container[probe]["httpGet"] == {"path": path, "port": "admin"}, container[probe]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > PROOFS, startup
    listen = int(config["listen"].split(":")[1])
    for service in rendering.all("Service"):
        for port in service["spec"]["ports"]:
            assert ports[port["targetPort"]] == port["port"], port
            assert port["port"] == (listen if port["name"] == "agents" else int(admin)), port


def memory_fits(rendering):
    """Buffers, as much again for parsing, and sessions fit into the container's limit."""
    config = yaml.safe_load(rendering.config())
    limit = size(rendering.gateway()["resources"]["limits"]["memory"])
    sessions = max(SESSIONS, config["sessions"]["max"] * SESSION)
    assert limit >= 2 * size(config["limits"]["memory"]) + sessions, (limit, sessions)


def containers_are_confined(rendering):
    """No token, no root, no capability, no way to write but to volumes that are thrown away."""
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
            assert "subPath" not in mount, "changes do not arrive in a subPath"
            assert mount.get("readOnly") or "emptyDir" in volumes[mount["name"]], mount
        keys = [it["name"] for it in container["volumeMounts"] if "secret" in volumes[it["name"]]]
        assert keys == (["keys"] if container["name"] == "hookgate" else []), f"{container['name']} reads the keys"
    assert volumes["keys"]["secret"]["defaultMode"] == 0o440


def selectors_find_their_pods(rendering):
    """Each selector has the labels of the pods that it is for."""
    deployment = rendering.one("Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    selectors += [it["spec"]["selector"] for it in rendering.all("Service")]
    selectors += [it["spec"]["selector"]["matchLabels"] for it in rendering.all("PodDisruptionBudget")]
    selectors += [it["labelSelector"]["matchLabels"] for it in rendering.pod()["topologySpreadConstraints"]]
    for selector in selectors:
        assert selector and selector.items() <= labels.items(), selector
    for monitor in rendering.all("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        [service] = [it for it in rendering.all("Service") if wanted.items() <= it["metadata"]["labels"].items()]
        assert [it["port"] for it in monitor["spec"]["endpoints"]] == [it["name"] for it in service["spec"]["ports"]]


def there_are_two_or_more(rendering):
    """Two gateways at least, of which one at a time may be taken away."""
    if not rendering.all("Service"):  # a sidecar: one gateway for each agent
        return
    deployment, scaler = rendering.one("Deployment"), rendering.one("HorizontalPodAutoscaler")
    assert "replicas" not in deployment["spec"], "each `apply` would undo the autoscaler"
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert scaler["spec"]["minReplicas"] >= 2
    assert rendering.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    shared = "store" in yaml.safe_load(rendering.config())["sessions"]
    assert (rendering.one("Service", "hookgate")["spec"]["sessionAffinity"] == "None") == shared


def agents_reach_only_gateways(rendering):
    """In `no-bypass`, no pod of the agents' namespace reaches more than gateways and DNS."""
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
    admitted = {it["ports"][0]["port"]: it["from"] for it in gateways["spec"]["ingress"]}
    assert admitted[8787] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agents"}}}]
    assert {it["ports"][0]["port"] for it in gateways["spec"]["egress"]} == {53, 6379, 443}


def chart_equals_base():
    """The chart's objects are those of the overlays, but for labels."""
    for overlay, release in {"base": "default", "overlay replicas": "replicas", "overlay no-bypass": "no-bypass"}.items():
        theirs, ours = comparable(Kustomize.render(overlay)), comparable(Helm.render(release))
        if release == "default":  # the chart leaves it out until it is asked for it
            del theirs["ServiceMonitor hookgate"]
        assert theirs.keys() == ours.keys(), theirs.keys() ^ ours.keys()
        for name, object in theirs.items():
            assert object == ours[name], f"{name}: {object}\n{ours[name]}"


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
    """Without the labels that only Helm sets."""
    if isinstance(it, list):
        return [without_labels(each) for each in it]
    if not isinstance(it, dict):
        return it
    ignored = {"labels", "app.kubernetes.io/instance"}
    return {key: without_labels(value) for key, value in it.items() if key not in ignored}


def copies_are_equal():
    """The version of the crate is that of the image and the chart; the sidecar's agent is pointed as on a laptop."""
    version = re.search(r'(?m)^version = "(.+)"$', (REPO / "Cargo.toml").read_text()).group(1)
    for rendering in [*map(Kustomize.render, Kustomize.FOLDERS), Helm.render("default")]:
        assert rendering.gateway()["image"] == f"hookgate:{version}", rendering.gateway()["image"]
    chart = yaml.safe_load((REPO / "deploy/helm/hookgate/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    pointed = (REPO / "config/agents/pointed/gemini-cli.api-key.env").read_text()
    assert (REPO / "deploy/kubernetes/overlays/sidecar/agent.env").read_text() == pointed


def documented_overlay_renders():
    """The overlay of docs/kubernetes.md, with files of its user, changes the image and the config."""
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
    "shutdown fits the grace period": shutdown_fits,
    "probes ask the gateway": probes_ask_the_gateway,
    "memory fits the limit": memory_fits,
    "containers are confined": containers_are_confined,
    "selectors find their pods": selectors_find_their_pods,
    "there are two or more gateways": there_are_two_or_more,
    "agents reach only gateways": agents_reach_only_gateways,
}
