// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/help.hpp"

namespace h5feed::cli {

const char* const kBenchFooter =
    R"(Each row runs in its own process, so that its peak memory is its own. A repetition is as many first epochs
as fit in its share of --time-budget, or part of one (whole windows of chunk:K); every epoch uses a new loader
with an empty cache, so that its chunks are decoded. Rates are medians over --runs repetitions, counters are
sums over them.
If the data fits in the cache, "cached samples/s" is the rate of the following epochs, which decode nothing.

A repetition takes at least one window of chunks. No repetition starts after twice the row's time, or one
second more than the row's time if that is longer, whatever --runs says.

The limits are measured in the same process, in turn with the loader, with the same number of threads:
decode = threads that read each chunk, run its filters and copy its rows, without cache, order or queue;
gather = threads that read single random rows of uncompressed data.
"auto" is num_workers = auto; the workers that it used at the end stand beside it. It adapts within the first 50
batches, which are part of its time. Its limits are measured with as many threads as there are usable cores.
"of limit" is the loader's rate of decoding (or of reading rows) divided by the limit; the wait for the first
batch, which cannot be hidden, and the start of the workers are part of the loader's time.

Warm rows start with the file in the page cache if it fits in free memory. Cold rows (--cold) drop its pages
before each pass, limits included, and check that they are gone. Their limits are bare reads of the same
bytes: for sequential and chunk:K, one thread that reads in file order; for full, reads of single chunks, or
of rows if the loader reads rows, with as many reads in flight as the loader has.

--peer measures other loaders of Python in turn with h5feed, on the same samples and batches:
  pytorch   PyTorch's DataLoader over h5py: the file opened for each item; opened once in each worker, one row
            per sample; the whole file in memory; tuned (1 GiB of chunk cache, whole chunks, whole batches)
  spdl      SPDL: threads that read through h5py and decode gzip outside libhdf5
  dali      DALI on the CPU: an external source over h5py; its WebDataset reader
  litdata, ffcv   their own formats
Several names are separated by commas. Where a peer can deliver a given order, a row has the order of h5feed's
first epoch ("the same"), beside those in the peer's own order. Peers that read their own format get a copy of
the samples in --scratch first; the time for it is printed, but not part of the rows.
"samples/s" is that of an epoch, from before the loader is made to the last batch: the time to the first batch
("first batch"), and all others at the rate measured after the start ("after start").
Defaults are batches of 512, 4 workers for the peers and 12 s per row. Starting Python takes additional time:
repetitions are left out if starting would take more than twice a row's time and more than 5 s. A process that
exceeds its time by more than five times the start-up time (at least 2 s) is killed, and its row fails; rows
that read the whole file at their start, or compile, have two minutes more.

--world-size adds up the rates of processes that run at the same time, each for the row's time and at least
one epoch; an epoch that takes more than twice that time is cut short. "read" is the number of bytes that
all processes together read in one epoch, divided by the bytes that the file stores: 1 if each chunk is read
by one process.

--alternate A B measures two sides in turn, in short repetitions, and tests whether they differ. A side is a program
of h5feed, or settings, or both: "build/new/h5feed batch_size=64". --time-budget is then that of the whole comparison
(default 60s). Samples/s and CPU time per sample are tested by Wilcoxon's test for pairs, which calls equal sides
different in at most one of 100 comparisons. On a busy machine the CPU time shows smaller differences.
--compare FILE shows how each row differs from that of an earlier --export-json FILE, and what else changed. Two runs
differ by the drift of the machine as well; --alternate decides differences below 10 %.
--sweep NAME=V,V,... measures each row with each value of any option; several sweeps are combined.
--set NAME=VALUE sets any option of the dataset and the loader by its name in C++ and Python, --config FILE all of
them: {"dataset": {...}, "loader": {...}}, as "h5feed info FILE --write-config" writes it. Options that are typed
override it.

Examples:
  h5feed bench train.h5 --target labels
  h5feed bench train.h5 --alternate num_workers=2 num_workers=4
  h5feed bench train.h5 --alternate old/h5feed new/h5feed --max-loss 5%
  h5feed bench train.h5 --compare yesterday.json
  h5feed bench train.h5 --target-rate 5000 --sweep batch_size=64,256 --sweep shuffle=chunk:4,chunk:16
  h5feed bench --config train.json --num-workers 4
  h5feed bench fashion.h5 --data train/images --target train/labels --num-workers 0,1,2,4 --shuffle chunk:16
  h5feed bench train.h5 --cache-bytes 256MiB --shuffle full --time-budget 10s --export-json bench.json
  h5feed bench train.h5 --num-workers auto
  h5feed bench train.h5 --cold --num-workers 2 --shuffle chunk:16
  h5feed bench train.h5 --shuffle chunk:16 --peer pytorch
  h5feed bench train.h5 --target labels --peer pytorch,spdl,dali --python venv/bin/python
  h5feed bench train.h5 --world-size 1,2,4 --shard by_chunk --shuffle chunk:16
  h5feed bench slides.h5 --tile-size 512 --tile-overlap 64 --tile-edges shift --batch-size 16
  h5feed bench index.h5 --data '*/data' --target '*/target' --sample dataset --input-layout none
  h5feed bench photos.h5 --data encoded_images --image-size 224 --num-workers 2
  h5feed bench text.h5 --data tokens --json)";

}  // namespace h5feed::cli
