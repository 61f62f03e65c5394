# SPDX-License-Identifier: Apache-2.0
"""Threads, forks and signals."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading

import h5py
import numpy as np
import pytest

import h5feed


def run(script: str, *arguments: object, timeout: float = 60) -> subprocess.CompletedProcess:
    quiet = ("-W", "ignore:This process:DeprecationWarning")  # Python 3.12 and later warn of every fork beside threads
    return subprocess.run([sys.executable, *quiet, "-c", textwrap.dedent(script), *map(str, arguments)], text=True,
                          capture_output=True, timeout=timeout, check=False)


def in_child(work) -> int:
    """Runs `work` in a forked child; returns its exit code: 0 if it returned true."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_second_thread_in_next_gets_a_runtime_error(dataset):
    inside, leave = threading.Event(), threading.Event()

    def sampler(epoch):
        if epoch == 1:
            inside.set()
            leave.wait(30)
        return [0]

    loader = h5feed.DataLoader(dataset, sampler=sampler)
    list(loader)
    thread = threading.Thread(target=lambda: list(loader))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(RuntimeError, match="another thread"):
        loader.state_dict()
    assert loader.stats()["batches"] == 1
    leave.set()
    thread.join()


def test_a_callback_that_uses_its_loader_gets_a_runtime_error(dataset):
    loader = None

    def sampler(epoch):
        if epoch == 1:
            next(iter(loader))
        return [0]

    loader = h5feed.DataLoader(dataset, sampler=sampler)
    list(loader)
    with pytest.raises(RuntimeError, match="used the DataLoader itself"):
        list(loader)


def test_other_threads_run_while_a_batch_is_awaited(dataset):
    release = threading.Event()
    loader = h5feed.DataLoader(dataset, num_workers=1, worker_init_fn=lambda _: release.wait(30))
    threading.Timer(0.01, release.set).start()
    assert next(iter(loader)).number == 0


def test_close_ends_a_thread_that_waits(dataset):
    release, waiting, seen = threading.Event(), threading.Event(), []

    def wait(worker):
        waiting.set()
        release.wait(30)

    loader = h5feed.DataLoader(dataset, num_workers=1, worker_init_fn=wait)

    def consume():
        try:
            next(iter(loader))
        except RuntimeError as error:
            seen.append(str(error))
            release.set()  # the thread's own reference ends the workers

    thread = threading.Thread(target=consume)
    thread.start()
    assert waiting.wait(30)
    closer = threading.Thread(target=loader.close)
    closer.start()
    thread.join(30)
    closer.join(30)
    assert seen and "closed" in seen[0]


def test_the_timeout_counts_over_the_polls(dataset):
    release = threading.Event()
    loader = h5feed.DataLoader(dataset, num_workers=1, timeout=0.12, worker_init_fn=lambda _: release.wait(30))
    iterator = iter(loader)
    with pytest.raises(TimeoutError, match="120 ms") as caught:
        next(iterator)
    assert isinstance(caught.value, h5feed.TimeoutError)
    release.set()
    batch = None
    while batch is None:  # the batch is not lost
        try:
            batch = next(iterator)
        except TimeoutError:
            pass
    assert batch.number == 0


def test_a_signal_interrupts_waiting_and_loses_no_batch(gzip_file):
    outcome = run("""
        import os, signal, sys, threading, time
        import h5feed
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as in a shell's background
        release = threading.Event()
        loader = h5feed.DataLoader(sys.argv[1], data="images", num_workers=1, worker_init_fn=lambda _: release.wait(30))
        iterator = iter(loader)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            next(iterator)
        except KeyboardInterrupt:
            print("interrupted")
        release.set()
        print([batch.number for batch in iterator] == list(range(100)))
    """, gzip_file)
    assert outcome.stdout.split() == ["interrupted", "True"], outcome.stderr


def test_a_signal_just_before_a_batch_is_ready_loses_none(gzip_file):
    outcome = run("""
        import os, signal, sys, threading, time
        import h5feed
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as in a shell's background
        begun = threading.Event()
        def interrupt(worker):  # next() waits by now; the first batch comes right after the signal
            begun.wait(30)
            time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        loader = h5feed.DataLoader(sys.argv[1], data="images", num_workers=1, worker_init_fn=interrupt)
        iterator = iter(loader)
        try:
            begun.set()
            next(iterator)
        except KeyboardInterrupt:
            print("interrupted")
        print([batch.number for batch in iterator] == list(range(100)))
    """, gzip_file)
    assert outcome.stdout.split() == ["interrupted", "True"], outcome.stderr


def test_a_dataset_works_in_a_forked_child(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=4, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    part = dataset.subset([5, 6])
    part[0]

    def child():
        own = h5feed.DataLoader(dataset, batch_size=50, num_workers=2)
        return part[1][1] == 18 and [len(batch.target) for batch in own] == [50, 50]

    for _ in range(10):
        assert in_child(child) == 0
    assert next(iterator).number == 1


def test_a_loader_of_the_parent_says_so_in_a_forked_child(dataset):
    loader = h5feed.DataLoader(dataset, num_workers=2)
    iterator = iter(loader)
    next(iterator)

    def child():
        nonlocal loader, iterator
        for use in (lambda: next(iterator), lambda: iter(loader), loader.state_dict, loader.stats):
            with pytest.raises(RuntimeError, match="before the process forked"):
                use()
        loader.close()
        del loader, iterator
        return True

    assert in_child(child) == 0
    assert next(iterator).number == 1


def test_a_killed_child_leaves_the_parent_alone(dataset):
    loader = h5feed.DataLoader(dataset, batch_size=4, num_workers=2)
    iterator = iter(loader)
    next(iterator)

    def child():
        own = h5feed.DataLoader(dataset, num_workers=2)
        next(iter(own))
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(child) == -signal.SIGKILL
    assert [batch.number for batch in iterator] == list(range(1, 25))


def test_a_forked_child_ends_as_any_program(gzip_file):
    outcome = run("""
        import os, sys, h5feed
        dataset = h5feed.Dataset.open(sys.argv[1], data="images")
        loader = h5feed.DataLoader(dataset, num_workers=2)
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            own = h5feed.DataLoader(dataset, num_workers=1)
            next(iter(own))
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), next(iterator).number)
    """, gzip_file)
    assert (outcome.stdout.split(), outcome.stderr) == (["3", "1"], "")


def test_a_fork_finds_the_library_unlocked(gzip_file, dataset):
    stop = threading.Event()

    def keep_opening():
        while not stop.is_set():
            h5feed.Dataset.open(gzip_file, data="images")

    thread = threading.Thread(target=keep_opening)
    thread.start()
    try:
        for _ in range(15):
            assert in_child(lambda: len(h5feed.Dataset.open(gzip_file, data="images")) == 100) == 0
    finally:
        stop.set()
        thread.join()


def test_a_spawned_process_opens_the_dataset_again(dataset):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_sum, (dataset.subset([1, 2]),)) == 9


def _sum(dataset) -> int:
    return int(sum(target for _, target in dataset))


@pytest.mark.parametrize("order", ["h5py, h5feed", "h5feed, h5py"])
def test_h5py_and_h5feed_read_and_write_in_one_process(gzip_file, folder, order):
    outcome = run(f"""
        import sys
        import {order}
        import numpy as np
        for turn in range(3):
            with h5py.File(sys.argv[2], "w") as file:
                file.create_dataset("x", data=np.arange(20).reshape(10, 2), chunks=(3, 2), compression="gzip")
                dataset = h5feed.Dataset.open(sys.argv[1], data="images")
                assert dataset[3][0].sum() == h5py.File(sys.argv[1])["images"][3].sum()
            assert h5feed.Dataset.open(sys.argv[2], data="x")[4][0].tolist() == [8, 9]
            try:
                h5feed.Dataset.open(sys.argv[2], data="none")
            except ValueError:
                pass
        print("done")
    """, gzip_file, folder / "both.h5")
    assert outcome.stdout.split() == ["done"], outcome.stderr


def test_loaders_come_and_go_without_growth(dataset):
    def resources() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    def make(times: int) -> None:
        for _ in range(times):
            loader = h5feed.DataLoader(dataset, batch_size=7, num_workers=2, shuffle=True)
            kept = [batch for batch, _ in zip(loader, range(3))]
            del loader, kept

    make(5)
    before = resources()
    make(40)
    after = resources()
    assert after[0] == before[0]
    # A thread that was joined may be listed for a moment longer: at most the last loader's two.
    assert after[1] <= before[1] + 2


def test_100000_batches_need_no_more_memory_than_20000(folder):
    path = folder / "many.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros((20_000, 4), np.uint8), chunks=(1000, 4), compression="gzip")
    outcome = run("""
        import os, sys, h5feed
        def resources():
            pages = int(open("/proc/self/statm").read().split()[1])
            return pages * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        loader = h5feed.DataLoader(sys.argv[1], data="x", shuffle=True, num_workers=1)
        marks = []
        for epoch in range(5):
            for batch in loader:
                pass
            marks.append(resources())
        print(marks[4][0] - marks[0][0], marks[4][1:] == marks[0][1:])
    """, path, timeout=300)
    grown, same = outcome.stdout.split()
    assert int(grown) <= 2 * 2**20 and same == "True", outcome.stdout


def test_datasets_opened_again_and_again_need_no_more_memory(gzip_file):
    outcome = run("""
        import ctypes, gc, os, pickle, sys, h5feed
        trim = ctypes.CDLL(None).malloc_trim
        def resident(opened):
            for _ in range(opened):
                dataset = h5feed.Dataset.open(sys.argv[1], data="images", target="labels")
                dataset.refresh()
                pickle.loads(pickle.dumps(dataset.subset([3, 1])))[0]
            del dataset
            gc.collect()
            trim(0)
            return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")
        before = resident(100)
        print(resident(300) - before)
    """, gzip_file)
    assert int(outcome.stdout) <= 2**19, outcome.stdout + outcome.stderr


def test_no_object_of_the_core_leaks(gzip_file):
    outcome = run("""
        import sys, h5feed
        h5feed._core.report_leaks(True)
        dataset = h5feed.Dataset.open(sys.argv[1], data="images", target="labels")
        loader = h5feed.DataLoader(dataset, batch_size=9, sampler=lambda epoch: [epoch], num_workers=1)
        kept = [batch for batch in loader] + [dataset[3], dataset[:4], loader.plan()]
    """, gzip_file)
    assert outcome.returncode == 0 and "leak" not in outcome.stderr, outcome.stderr
