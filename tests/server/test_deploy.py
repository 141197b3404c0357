#!/usr/bin/env python3
"""The files of deploy/ against the program: options that exist, metrics that are there, units that systemd takes."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from optional_tools import finish, has_tool
from serve_program import Serve, story

PROGRAM = os.path.abspath(sys.argv[1])
ROOT = sys.argv[2]
DEPLOY = ROOT + "/deploy/"


def read(name):
    with open(DEPLOY + name, encoding="utf-8") as file:
        return file.read()


def test_options():
    """Every option that the files give to serve is one."""
    help_text = subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    named = set()
    for name in ("sluice.service", "Dockerfile", "nginx.conf"):
        for line in read(name).splitlines():
            if "sluice" in line or "as --" in line.lower() or "than --" in line:
                named |= set(re.findall(r"(?<=[\s\"])--([a-z-]+)", line))
    named -= {"rm", "system", "no-create-home", "from", "prefix", "strip"}
    assert {"host", "api-key-file", "drain-seconds", "max-body-bytes"} <= named, named
    for name in named:
        assert f"--{name} " in help_text, name


def packages_of_image():
    """What the image that runs installs, and what that depends on."""
    runtime = read("Dockerfile").split("FROM ")[-1]
    packages = re.search(r"--no-install-recommends (.*?) && rm", re.sub(r"\s*\\\s*", " ", runtime)).group(1).split()
    known = set()
    while packages:
        package = packages.pop()
        if package in known:
            continue
        known.add(package)
        fields = subprocess.run(["dpkg-query", "-W", "-f=${Pre-Depends},${Depends}", package], capture_output=True, text=True)
        packages += re.findall(r"(?:^|[,|])\s*([a-z0-9.+-]+)", fields.stdout)
    return known


def test_image():
    """Whatever library the program wants is in the image."""
    if not has_tool("dpkg-query", "libraries of the image"):
        return
    section = subprocess.run(["readelf", "-d", PROGRAM], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", section)
    assert "libmicrohttpd.so.12" in libraries, section
    known = packages_of_image()
    for library in libraries:
        if re.match("lib(asan|ubsan|tsan)", library):
            continue  # of this build only
        owners = subprocess.run(["dpkg-query", "-S", "*/" + library], capture_output=True, text=True, check=True).stdout
        assert {owner.split(":")[0] for owner in owners.splitlines()} & known, (library, owners)


def test_units():
    if not has_tool("systemd-analyze", "units of systemd"):
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sluice.service", "sluice.socket"):
            with open(folder + "/" + name, "w", encoding="utf-8") as file:
                file.write(read(name).replace("/usr/local/bin/sluice", PROGRAM))
        paths = [folder + "/sluice.service", folder + "/sluice.socket"]
        result = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], capture_output=True, text=True)
        complaints = [line for line in result.stderr.splitlines() if "/sluice." in line]
        assert result.returncode == 0 and complaints == [], result.stderr


def test_nginx():
    """The proxy's site is well-formed, with certificates that exist."""
    if not has_tool("nginx", "the site of nginx"):
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-subj", "/CN=x", "-keyout", folder + "/key", "-out", folder + "/cert"], check=True,
                       capture_output=True)
        site = read("nginx.conf").replace("/etc/ssl/certs/llm.example.org.pem", folder + "/cert")
        site = site.replace("/etc/ssl/private/llm.example.org.key", folder + "/key")
        with open(folder + "/nginx.conf", "w", encoding="utf-8") as file:
            file.write(f"pid {folder}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{site}\n}}\n")
        result = subprocess.run(["nginx", "-t", "-p", folder, "-c", folder + "/nginx.conf"], capture_output=True,
                                text=True)
        assert result.returncode == 0, result.stderr


def test_dashboard():
    """Each panel asks for metrics and labels that the server has."""
    dashboard = json.loads(read("grafana-dashboard.json"))
    with Serve(PROGRAM, ROOT + "/models/mini-v4", "-pp", "2", "-tp", "2", "--speculative-config",
               '{"method":"mtp","num_speculative_tokens":2}') as server:
        server.post("/v1/chat/completions", story(5))
        text = server.get("/metrics").body.decode()
    known = {}
    for name, labels in re.findall(r"^([a-z0-9_:]+)\{([^}]*)\}", text, re.MULTILINE):
        known.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 15
    for expression in expressions:
        for name, labels in re.findall(r"((?:vllm|sluice):\w+)\{([^}]*)\}", expression):
            assert name in known, name
            assert set(re.findall(r"(\w+)=", labels)) <= known[name], (name, labels)
            for group in re.findall(r"\w+", " ".join(re.findall(r"by \(([\w, ]+)\)", expression))):
                assert group in known[name] or "spec_decode_num_drafts" in name, (name, group)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    if has_tool("promtool", "expressions of the dashboard"):
        with tempfile.TemporaryDirectory() as folder:
            rules = [{"record": f"check:{i}", "expr": expression.replace("$__rate_interval", "1m").replace("$model", ".*")}
                     for i, expression in enumerate(expressions)]
            with open(folder + "/rules.json", "w", encoding="utf-8") as file:
                json.dump({"groups": [{"name": "check", "rules": rules}]}, file)  # JSON is YAML
            result = subprocess.run(["promtool", "check", "rules", folder + "/rules.json"], capture_output=True, text=True)
            assert result.returncode == 0, result.stderr
            shutil.copy(DEPLOY + "prometheus.yml", folder)
            with open(folder + "/prometheus.yml", encoding="utf-8") as file:
                text = file.read().replace("/etc/prometheus/sluice-key", folder + "/rules.json")
            with open(folder + "/prometheus.yml", "w", encoding="utf-8") as file:
                file.write(text)
            result = subprocess.run(["promtool", "check", "config", folder + "/prometheus.yml"], capture_output=True,
                                    text=True)
            assert result.returncode == 0, result.stderr


def main():
    for test in (test_options, test_image, test_units, test_nginx, test_dashboard):
        test()
    finish()


main()
