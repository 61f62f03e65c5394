# SPDX-License-Identifier: Apache-2.0
"""The files of examples/cluster: the manifest of Kubernetes, the scripts of the launchers, and starving.py."""

import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

CLUSTER = pathlib.Path(__file__).parents[2] / "examples" / "cluster"
MANIFEST = CLUSTER / "kubernetes.yaml"


def documents() -> list[dict]:
    return list(pytest.importorskip("yaml").safe_load_all(MANIFEST.read_text()))


@pytest.fixture
def manifest() -> dict[str, dict]:
    return {document["kind"]: document for document in documents()}


def options_of_train() -> set[str]:
    return set(re.findall(r'add_argument\("(--[a-z-]+)"', (CLUSTER / "train.py").read_text()))


def test_the_manifest_is_valid_by_the_schema_of_kubernetes():
    validate = pytest.importorskip("kubernetes_validate")
    for document in documents():
        validate.validate(document, "1.28", strict=True)
    broken = documents()[1]
    broken["spec"]["completionmode"] = broken["spec"].pop("completionMode")
    with pytest.raises(validate.ValidationError):
        validate.validate(broken, "1.28", strict=True)


def test_the_pods_find_each_other_by_the_service(manifest):
    service, job = manifest["Service"], manifest["Job"]
    pod = job["spec"]["template"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completionMode"] == "Indexed"
    (command,) = pod["spec"]["containers"][0]["args"]
    # The first pod of an indexed Job has the host name JOB-0.
    first, port = f"{job['metadata']['name']}-0.{service['metadata']['name']}", service["spec"]["ports"][0]["port"]
    assert f"--rdzv-endpoint {first}:{port} " in command
    assert f"--nnodes {job['spec']['completions']} " in command
    assert job["spec"]["completions"] == job["spec"]["parallelism"]


def test_the_volumes_of_the_manifest_are_mounted_where_the_command_expects_them(manifest):
    pod = manifest["Job"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    (command,) = container["args"]
    paths = {word for word in shlex.split(command.split("train.py", 1)[1]) if word.startswith("/")}
    folders = tuple(mount["mountPath"] for mount in container["volumeMounts"])
    assert len(paths) == 4 and all(path.startswith(folders) for path in paths)


@pytest.mark.parametrize("name", ["kubernetes.yaml", "slurm.sbatch", "mpi.sh", "try_namespaces.sh"])
def test_the_options_given_to_train_exist(name):
    text = (CLUSTER / name).read_text()
    used = set(re.findall(r"(--(?:target|epochs|seed|global-batch|checkpoint|save-every|stage-dir|log-[a-z]+|epoch-log))\b", text))
    assert {"--checkpoint", "--stage-dir", "--epoch-log"} <= used <= options_of_train()


@pytest.mark.parametrize("name", ["slurm.sbatch", "mpi.sh", "try_namespaces.sh"])
def test_the_scripts_are_bash(name):
    subprocess.run(["bash", "-n", CLUSTER / name], check=True)


def words_of(name: str, arguments: list[str], folder: pathlib.Path, environment: dict[str, str]) -> list[str]:
    """Returns what a script gives to its launcher, a program that prints its arguments and MASTER_ADDR."""
    for program, code in {"srun": 'echo "MASTER_ADDR=$MASTER_ADDR" "$@"', "mpirun": 'echo "$@"',
                          "scontrol": "echo node7; echo node8"}.items():
        (folder / program).write_text(f"#!/bin/sh\n{code}\n")
        (folder / program).chmod(0o755)
    run = subprocess.run(["bash", CLUSTER / name, *arguments], check=True, capture_output=True, text=True, cwd=folder,
                         env={"PATH": f"{folder}:/usr/bin:/bin", "PYTHON": "python-of-train", **environment})
    return run.stdout.split()


def test_slurm_starts_a_task_for_each_rank_and_the_first_node_has_rank_0(tmp_path):
    words = words_of("slurm.sbatch", ["/shared/train.h5", "--epochs", "2"], tmp_path,
                     {"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_ID": "41234", "SLURM_CPUS_PER_TASK": "8",
                      "SLURM_SUBMIT_DIR": str(tmp_path), "TMPDIR": "/local"})
    assert words[0] == "MASTER_ADDR=node7"
    assert "--cpus-per-task=8" in words
    assert words[words.index("python-of-train") + 2:] == [
        "/shared/train.h5", "--epochs", "2", "--checkpoint", f"{tmp_path}/train.pt", "--stage-dir", "/local", "--epoch-log",
        f"{tmp_path}/epochs.jsonl"]


def test_mpi_starts_two_ranks_on_each_host(tmp_path):
    words = words_of("mpi.sh", ["node7,node8", "/shared/train.h5"], tmp_path, {"MPIRUN_OPTIONS": "--quiet"})
    assert words[:2] == ["--host", "node7:2,node8:2"]
    assert "MASTER_ADDR=node7" in words and "--quiet" in words
    assert words[words.index("python-of-train") + 2] == "/shared/train.h5"


def starving(*files: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CLUSTER / "starving.py", *files], capture_output=True, text=True, check=False)


def test_the_rank_that_waits_is_named(tmp_path):
    def line(epoch: int, rank: int, share: float) -> str:
        return json.dumps({"epoch": epoch, "rank": rank, "wait_share": share, "seconds": 10.0,
                           "bottleneck": "read" if share > 0.5 else "consumer", "advice": ["use stage_dir"] if share > 0.5 else []})

    (tmp_path / "0").write_text("\n".join([line(0, 0, 0.01), line(0, 1, 0.9), line(1, 0, 0.03), line(1, 1, 0.02)]) + "\n")
    (tmp_path / "1").write_text("\n".join([line(0, 2, 0.02), line(1, 2, 0.75), line(0, 1, 0.8), line(2, 0, 0.04)]) + "\n")
    done = starving(tmp_path / "0", tmp_path / "1")
    assert done.stdout.splitlines() == [
        "epoch 0: rank 1 of 3 waited most, 80.0% of 10.0 s (median of all ranks 2.0%); bottleneck: read; advice: use stage_dir",
        "epoch 1: rank 2 of 3 waited most, 75.0% of 10.0 s (median of all ranks 3.0%); bottleneck: read; advice: use stage_dir",
        "epoch 2: no rank starves; rank 0 of 1 waited most, 4.0% of 10.0 s (median of all ranks 4.0%)"]
    for text in ("epoch 1\n", '{"epoch": 0, "rank": 0}\n', "[]\n"):
        (tmp_path / "2").write_text(text)
        assert starving(tmp_path / "2").stderr == f"starving.py: {tmp_path / '2'}:1: this is no line of an epoch_log\n"
    (tmp_path / "2").write_bytes(b"\x89HDF\r\n")
    for name in ("2", "none"):
        assert starving(tmp_path / name).stderr.startswith(f"starving.py: {tmp_path / name}: cannot be read: ")


def test_the_log_of_a_loader_is_read(tmp_path, gzip_file):
    import h5feed

    for rank in range(2):
        loader = h5feed.DataLoader(gzip_file, data="images", target="labels", batch_size=10, seed=1, rank=rank, world_size=2,
                                   epoch_log=tmp_path / "epochs.jsonl")
        for _ in loader:
            pass
    done = starving(tmp_path / "epochs.jsonl")
    assert re.match(r"epoch 0: .*rank [01] of 2 waited most", done.stdout), done.stderr


def test_the_loaders_of_one_log_are_told_apart(tmp_path, gzip_file):
    import h5feed

    log = tmp_path / "epochs.jsonl"
    parts = h5feed.Dataset.open(gzip_file, data="images").split([0.8, 0.2], seed=1)
    for part in parts:
        list(h5feed.DataLoader(part, batch_size=10, epoch_log=log))
    first, second = (json.loads(line) for line in log.read_text().splitlines())
    assert first["data"] == second["data"] == f"{gzip_file}:/images"
    assert [line["dataset_samples"] for line in (first, second)] == [len(part) for part in parts]
    assert first["loader"] < second["loader"]
    lines = starving(log).stdout.splitlines()
    assert len(lines) == 2
    assert all(re.match(rf"epoch 0, .*:/images \(({len(parts[0])}|{len(parts[1])}) samples\): .*rank 0 of 1", line) for line in lines)


def test_train_py_is_python():
    compile((CLUSTER / "train.py").read_text(), "train.py", "exec")
