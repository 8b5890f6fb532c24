"""Tasks in processes beside one another: one that crashes or hangs is a failed task, and is replaced."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

Task = tuple[str, object]
SPAWN = multiprocessing.get_context("spawn")
START_SECONDS, GOODBYE = 120, None


@dataclass(frozen=True)
class Outcome:
    """What became of a task: what is wrong, if anything, what there is to say, and how long it took."""

    task: Task
    problem: str = ""
    note: str = ""
    seconds: float = 0.0


def outcomes(
    tasks: Sequence[Task], do: Callable[[Task], str], jobs: int, task_seconds: float
) -> Iterator[Outcome]:
    """Do tasks in so many processes, in any order; ``do`` returns a note, or raises what is wrong."""
    waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
    done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    for _ in range(jobs):
        threading.Thread(target=_feed, args=(waiting, done, do, task_seconds), daemon=True).start()
    for _ in tasks:
        yield done.get()


def _feed(
    waiting: queue.SimpleQueue[Task],
    done: queue.SimpleQueue[Outcome],
    do: Callable[[Task], str],
    task_seconds: float,
) -> None:
    """Give tasks to a process until none is left, and a new process where one is lost."""
    child = None
    while True:
        try:
            task = waiting.get_nowait()
        except queue.Empty:
            break
        start = time.perf_counter()
        if child is None:
            child = _Child(do)
        outcome = child.result(task, task_seconds)
        spent = time.perf_counter() - start
        if outcome is None:
            problem = child.end(f"gave no answer for {spent:.0f} s")
            child, outcome = None, Outcome(task, problem)
        done.put(Outcome(task, outcome.problem, outcome.note, spent))
        # After an error of the GPU nothing runs in that process any more.
        if child is not None and "CUDA" in outcome.problem:
            child.end("")
            child = None
    if child is not None:
        child.end("")


class _Child:
    """A process that does tasks."""

    def __init__(self, do: Callable[[Task], str]) -> None:
        self._pipe, there = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_work, args=(there, do), daemon=True)
        self._process.start()
        there.close()
        self._ready = self._pipe.poll(START_SECONDS) and self._received() == "ready"

    def _received(self) -> object:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            return None

    def result(self, task: Task, seconds: float) -> Outcome | None:
        """The outcome, or None where there is no answer."""
        try:
            self._pipe.send(task)
        except OSError:
            return None
        found = self._received() if self._pipe.poll(seconds) else None
        return found if isinstance(found, Outcome) else None

    def end(self, reason: str) -> str:
        """Kill the process; what can be said of it."""
        self._process.join(0.2)
        code = self._process.exitcode
        self._process.kill()
        return reason if code is None else f"its process ended with {code}"


def _work(pipe: Connection, do: Callable[[Task], str]) -> None:
    pipe.send("ready")
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            outcome = Outcome(task, note=do(task) or "")
        except BaseException as error:  # whatever it is, the task has failed
            outcome = Outcome(task, f"{type(error).__name__}: {error}")
        pipe.send(outcome)
