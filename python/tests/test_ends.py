# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter, and of loaders in their own callbacks."""

import pytest
from test_process import run

import h5feed


def test_the_interpreter_exits_with_a_loader_alive(gzip_file):
    for ending in ("", "sys.exit(0)", "loader.close()"):
        outcome = run(f"""
            import sys, h5feed
            loader = h5feed.DataLoader(sys.argv[1], data="images", num_workers=2, batch_size=3)
            iterator = iter(loader)
            batch = next(iterator)
            {ending}
        """, gzip_file)
        assert (outcome.returncode, outcome.stderr) == (0, "")


def test_the_interpreter_exits_while_a_daemon_thread_waits(gzip_file):
    outcome = run("""
        import sys, threading, h5feed
        entered = threading.Event()
        loader = h5feed.DataLoader(sys.argv[1], data="images", num_workers=1, worker_init_fn=lambda _: entered.set())
        def consume():
            try:
                while True:
                    for _ in loader:
                        pass
            except RuntimeError as error:
                assert "closed" in str(error), error
        threading.Thread(target=consume, daemon=True).start()
        entered.wait()
    """, gzip_file)
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.parametrize("work", ["dataset[0:20]", "h5feed.Dataset.open(sys.argv[1], data='images')",
                                  "next(iter(h5feed.DataLoader(dataset, batch_size=3, num_workers=1)))"])
def test_the_interpreter_exits_while_a_daemon_thread_is_in_the_core(gzip_file, work):
    outcome = run(f"""
        import sys, threading, h5feed
        dataset = h5feed.Dataset.open(sys.argv[1], data="images")
        entered = threading.Event()
        def spin():
            while True:
                {work}
                entered.set()
        threading.Thread(target=spin, daemon=True).start()
        entered.wait()
    """, gzip_file)
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.parametrize("end", ["box.pop().close()", "box.clear()", "gc.collect()"])
def test_a_loader_may_end_in_its_own_callback(gzip_file, end):
    outcome = run(f"""
        import gc, sys, time, h5feed
        box = []
        def init(worker):
            while not box:
                time.sleep(0.01)
            {end}
        def train():
            loader = h5feed.DataLoader(sys.argv[1], data="images", num_workers=1, worker_init_fn=init)
            loader.cycle = loader
            box.append(None if "gc" in "{end}" else loader)
            del loader
            gc.collect()
        train()
        print("went on")
    """, gzip_file)
    assert (outcome.returncode, outcome.stdout) == (0, "went on\n"), outcome.stderr


def test_a_callback_that_raises_stop_iteration_ends_no_epoch(dataset):
    def init(worker):
        raise StopIteration("a mistake")

    loader = h5feed.DataLoader(dataset, num_workers=1, worker_init_fn=init)
    with pytest.raises(RuntimeError, match="raised StopIteration") as raised:
        list(loader)
    assert isinstance(raised.value.__cause__, StopIteration)
