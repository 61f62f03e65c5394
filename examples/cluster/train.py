# SPDX-License-Identifier: Apache-2.0
"""Trains on any number of hosts with DistributedDataParallel, saves one checkpoint for all ranks, and resumes from it.

    torchrun --nproc-per-node 2 examples/cluster/train.py FILE.h5 --target labels --global-batch 256

Started by torchrun, by Slurm's srun, or by Open MPI's mpirun; the last two need MASTER_ADDR, if there are several hosts. A
resumed run may have another number of ranks: the global batch, and so the order and the steps, stay the same.
"""

import argparse
import os
import pathlib
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import h5feed.torch

# Variables that a launcher sets for each process: its rank, its rank on the host, and the number of all.
LAUNCHERS = [("RANK", "LOCAL_RANK", "WORLD_SIZE"),
             ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
             ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--data", default="", help="dataset of the images; default: the only one that looks like images")
    parser.add_argument("--target", default="labels", help="dataset of the labels")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--global-batch", type=int, default=256, help="samples of one step, of all ranks together")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--shuffle", default="chunk:16", help="full or chunk:K")
    parser.add_argument("--seed", type=int, default=1, help="of order and weights; the same on every rank")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="file that all ranks can read; resumed from where it exists")
    parser.add_argument("--save-every", type=int, default=100, help="steps between two checkpoints")
    parser.add_argument("--stage-dir", help="folder on a local disk; the file is copied there once per host")
    parser.add_argument("--epoch-log", help="file to which each rank appends where the time of an epoch went")
    parser.add_argument("--timeout", type=float, default=60, help="seconds after which silent ranks count as gone")
    parser.add_argument("--log-steps", action="store_true", help="a line for each step")
    parser.add_argument("--log-indices", type=pathlib.Path,
                        help="folder for a file of each rank, with a line for each step: its number, and those of its samples")
    return parser.parse_args()


def start_process_group(timeout: float) -> torch.device:
    """Joins the other ranks; returns the device of this one."""
    rank, local_rank, world_size = next((names for names in LAUNCHERS if names[0] in os.environ), (None, None, None))
    if rank is None:
        raise SystemExit("train.py: started without a launcher; use torchrun, srun or mpirun")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ[local_rank]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=int(os.environ[rank]),
                            world_size=int(os.environ[world_size]), timeout=timedelta(seconds=timeout))
    return device


class Training:
    """A model, its optimizer and its loader: all that a checkpoint holds."""

    def __init__(self, given: argparse.Namespace, device: torch.device) -> None:
        self.given, self.device = given, device
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        if given.global_batch % self.world_size != 0:
            raise SystemExit(f"train.py: --global-batch {given.global_batch} is no multiple of {self.world_size}, the number of ranks")
        dataset = h5feed.Dataset.open(given.file, data=given.data, target=given.target, stage_dir=given.stage_dir)
        # Rank and world size are those of the process group. Workers are threads, and the processes of a host share its
        # CPUs and memory among them: "auto" goes by what the container or job may use.
        self.loader = h5feed.torch.DataLoader(dataset, batch_size=given.global_batch // self.world_size, shuffle=given.shuffle,
                                              seed=given.seed, num_workers="auto", device=str(device),
                                              normalize={"mean": 0.5, "std": 0.25}, epoch_log=given.epoch_log)
        torch.manual_seed(given.seed)
        channels = dataset.sample_shape[0]
        net = nn.Sequential(nn.Conv2d(channels, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                            nn.Linear(16 * 4 * 4, given.classes)).to(device)
        self.model = nn.parallel.DistributedDataParallel(net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.steps = 0
        self.index_log = None
        if given.log_indices is not None:
            given.log_indices.mkdir(parents=True, exist_ok=True)
            self.index_log = open(given.log_indices / f"rank-{self.rank}.txt", "w", buffering=1)  # a line at a time
        self.say(f"{self.world_size} ranks, batches of {given.global_batch}, device {device}")
        self.resume()

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)

    def run(self) -> None:
        while self.loader.epoch < self.given.epochs:
            epoch = self.loader.epoch
            for batch in self.loader:
                self.step(batch)
                if self.steps % self.given.save_every == 0:
                    self.save()
            self.compare_ranks(epoch)
        self.save()

    def step(self, batch: h5feed.torch.Batch) -> None:
        if self.index_log is not None:
            print(self.steps + 1, *batch.indices.tolist(), file=self.index_log)
        data, target = batch
        # The last batches of an epoch may differ by a sample, or be empty on a rank. DistributedDataParallel divides the
        # sum of the ranks' gradients by their number; this scale makes of it the mean over all samples of the step.
        samples = torch.tensor(float(len(target)), device=self.device)
        dist.all_reduce(samples)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(data), target, reduction="sum") * self.world_size / samples
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.given.log_steps:
            self.say(f"step {self.steps} loss of rank 0 {loss.item():.4f}")

    def compare_ranks(self, epoch: int) -> None:
        """Prints which rank waited most for its data. While one rank waits, the others wait for it in all_reduce."""
        verdicts: list[Any] = [None] * self.world_size
        dist.all_gather_object(verdicts, self.loader.verdict())
        if self.rank != 0:
            return
        most = max(verdicts, key=lambda verdict: verdict["wait_share"])
        self.say(f"epoch {epoch}: rank {most['rank']} waited most: {most['wait_share']:.1%} of the time, bottleneck "
                 f"{most['bottleneck']}; the least of all ranks: {min(v['wait_share'] for v in verdicts):.1%}")

    def save(self) -> None:
        """Writes the checkpoint: one file, since the position is the same on every rank. A crash leaves the old one."""
        if self.given.checkpoint is None or self.rank != 0:
            return
        unfinished = self.given.checkpoint.with_suffix(".part")
        torch.save({"model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "loader": self.loader.state_dict(), "steps": self.steps}, unfinished)
        os.replace(unfinished, self.given.checkpoint)
        self.say(f"saved after step {self.steps}")

    def resume(self) -> None:
        """Goes on from the checkpoint, if it exists. It must be the same file for all ranks."""
        found = self.given.checkpoint is not None and self.given.checkpoint.exists()
        everywhere = torch.tensor(float(found), device=self.device)
        dist.all_reduce(everywhere)
        if everywhere.item() not in (0, self.world_size):
            raise SystemExit(f"train.py: {self.given.checkpoint}: only {int(everywhere)} of {self.world_size} ranks see it; put it "
                             "on storage that all hosts share")
        if not found:
            return
        saved = torch.load(self.given.checkpoint, map_location=self.device, weights_only=True)
        self.model.module.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.loader.load_state_dict(saved["loader"])
        self.steps = saved["steps"]
        self.say(f"resumed after step {self.steps}")


def main() -> None:
    given = parse()
    device = start_process_group(given.timeout)
    training = Training(given, device)
    training.run()
    training.loader.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
