"""An open-loop client: requests are sent when they are due, whether earlier ones were answered or not."""

import http.client
import queue
import random
import threading
import time


class OpenLoop:
    """Sends `body` to one path at `rate` requests/s (Poisson arrivals from `seed`) until stopped. Latency counts from the moment
    a request was due. `samples` holds (due time, latency in s); `failures` the texts of what was not 200."""

    def __init__(self, port, path, body, json_bytes, rate, seed=1, connections=64):
        self.port, self.path, self.body, self.rate = port, path, body, rate
        self.headers = {"Inference-Header-Content-Length": str(json_bytes)}
        self.samples, self.failures = [], []
        self._random, self._due, self._stop = random.Random(seed), queue.Queue(), threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work) for _ in range(connections)] + [threading.Thread(target=self._schedule)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for _ in self._threads:
            self._due.put(None)
        for thread in self._threads:
            thread.join()

    def _schedule(self):
        due = time.perf_counter()
        while not self._stop.is_set():
            due += self._random.expovariate(self.rate)
            time.sleep(max(0.0, due - time.perf_counter()))
            self._due.put(due)

    def _work(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while True:
            due = self._due.get()
            if due is None:
                return
            try:
                connection.request("POST", self.path, self.body, self.headers)
                answer = connection.getresponse()
                data = answer.read()
                fault = "" if answer.status == 200 else f"{answer.status} {data[:200]!r}"
            except (OSError, http.client.HTTPException) as error:
                fault = repr(error)
                connection.close()
            with self._lock:
                self.samples.append((due, time.perf_counter() - due))
                if fault:
                    self.failures.append(fault)


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")
