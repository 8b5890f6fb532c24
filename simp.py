"""Time expand+simplify over the corpus for a few archs (CPU seconds)."""
import sys, time, warnings
warnings.simplefilter("ignore")
sys.path[:0] = ["tests/gpu", "tests"]
import product_cases, row_cases, elementwise_cases
from gizml_tile.target import gpus
import gizml_tile.gpu as gpu
from gizml_tile.lowering.expand import kernel as ek
from gizml_tile.lowering.passes import pipeline
from collections import defaultdict
spent = defaultdict(float)
KINDS = {t.arch: t.kind for t in gpus()}
old = pipeline.STEPS
def timed(f):
    def g(k):
        t = time.process_time(); r = f(k); spent[f.__name__] += time.process_time() - t; return r
    return g
pipeline.STEPS = tuple(map(timed, old))
e = ek.expand_noting
def en(plan):
    t = time.process_time(); r = e(plan); spent["expand+simplify"] += time.process_time() - t; return r
ek.expand_noting = en
t0 = time.process_time()
for m in (product_cases, row_cases, elementwise_cases):
    for case in m.CASES[:25]:
        for arch in ("sm_90a", "gfx942", "apple9"):
            try: case.launch.source(*case.tensors(), kind=KINDS[arch], arch=arch, **case.constants)
            except Exception: pass
spent["total"] = time.process_time() - t0
for k, v in spent.items(): print(f"{v:.2f} {k}")
