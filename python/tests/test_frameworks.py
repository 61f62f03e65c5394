# SPDX-License-Identifier: Apache-2.0
"""Lightning, Accelerate and DALI, where they are installed, with h5feed's loaders."""

import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import h5feed.torch  # noqa: E402

OPTIONS = {"batch_size": 16, "shuffle": "chunk:2", "num_workers": 2, "seed": 5, "normalize": {"scale": 1 / 255}}


def fit(dataset, folder, limit_train_batches=None, **options):
    """Trains for two epochs; returns epoch, number and samples of each batch."""
    lightning = pytest.importorskip("lightning")
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3 * 8 * 6, 1)

        def training_step(self, batch, _):
            seen.append((batch.epoch, batch.number, batch.indices.tolist()))
            return self.layer(batch.data.flatten(1)).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    saver = lightning.pytorch.callbacks.ModelCheckpoint(dirpath=folder, filename="{step}", every_n_train_steps=10, save_top_k=-1)
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
                                enable_model_summary=False, callbacks=[saver], limit_train_batches=limit_train_batches)
    trainer.fit(Model(), h5feed.torch.DataLoader(dataset, **OPTIONS), **options)
    return seen


@pytest.mark.filterwarnings("ignore")
def test_lightning_takes_the_loader_and_saves_its_position(dataset, tmp_path):
    seen = fit(dataset, tmp_path)
    assert [batch[:2] for batch in seen] == [(epoch, number) for epoch in range(2) for number in range(7)]
    loader = h5feed.torch.DataLoader(dataset, **OPTIONS)
    assert [batch[2] for batch in seen] == [batch.indices.tolist() for _ in range(2) for batch in loader]
    assert fit(dataset, tmp_path, ckpt_path=tmp_path / "step=10.ckpt", weights_only=False) == seen[10:]


@pytest.mark.filterwarnings("ignore")
def test_lightning_does_not_repeat_an_epoch_that_it_cuts_short(dataset, tmp_path):
    seen = fit(dataset, tmp_path, limit_train_batches=2)
    assert [batch[:2] for batch in seen] == [(0, 0), (0, 1), (1, 0), (1, 1)]


ACCELERATE = """
import json, sys
import accelerate, torch.utils.data
import h5feed.torch

accelerator = accelerate.Accelerator(cpu=True)
dataset = h5feed.Dataset.open(sys.argv[1], data="images", target="labels")
options = {"batch_size": 10, "shuffle": True, "seed": 5}
if sys.argv[2] == "itself":
    loader = h5feed.torch.DataLoader(dataset, **options)
    assert accelerator.prepare(loader) is loader
else:
    epochs = h5feed.torch.IterableDataset(dataset, shard=sys.argv[2], **options)
    loader = accelerator.prepare(torch.utils.data.DataLoader(epochs, batch_size=None))
seen = [[int(label) for _, target in loader for label in target] for _ in range(2)]
with open(f"{sys.argv[3]}/{accelerator.process_index}", "w") as file:
    json.dump(seen, file)
accelerator.end_training()
"""


@pytest.mark.parametrize(("shard", "samples"), [("itself", 100), ("none", 100), ("ranks", 50)])
def test_two_processes_of_accelerate(gzip_file, tmp_path, shard, samples):
    pytest.importorskip("accelerate")
    script = tmp_path / "script.py"
    script.write_text(ACCELERATE)
    outcome = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script,
                              gzip_file, shard, tmp_path], text=True, capture_output=True, timeout=300, check=False)
    assert outcome.returncode == 0, outcome.stderr
    ranks = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(2)]
    for epoch in range(2):
        seen = ranks[0][epoch] + ranks[1][epoch]
        assert len(seen) == len(set(seen)) == samples
    assert ranks[0][0] != ranks[0][1]


def test_dali_takes_the_loader_as_an_external_source(dataset):
    dali = pytest.importorskip("nvidia.dali")
    options = {"batch_size": 20, "drop_last": True, "shuffle": True, "seed": 5}

    @dali.pipeline_def(batch_size=20, num_threads=1, device_id=None)
    def feed():
        return tuple(dali.fn.external_source(source=h5feed.DataLoader(dataset, num_workers=2, **options), num_outputs=2,
                                             cycle="raise", layout=["CHW", ""]))

    pipeline = feed()
    pipeline.build()
    expected = h5feed.DataLoader(dataset, **options)
    for _ in range(2):
        for data, target in expected:
            images, labels = pipeline.run()
            assert (images.as_array() == data).all() and labels.as_array().tolist() == target.tolist()
        with pytest.raises(StopIteration):
            pipeline.run()
        pipeline.reset()
