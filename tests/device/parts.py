"""What only a real GPU can show: streams, graphs, other libraries' tensors, two devices, far elements."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path

import elementwise_cases
import numpy as np
import pages
import product_cases
import row_cases
import torch

import gizml_tile as tile

MODEL = Path(__file__).parents[2] / ".dev" / "model.npz"


def require(good: object, what: str) -> None:
    if not bool(good):
        raise AssertionError(what)


@tile.kernel(grid=lambda y, BLOCK: tile.cdiv(y.shape[0], BLOCK))
def doubled(p, x, y, *, BLOCK=4096):
    i = p.id(0)
    p.write(y, [BLOCK])[i] = p.read(x, [BLOCK])[i] * 2


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[1], BN), tile.cdiv(y.shape[0], BM)))
def doubled_blocks(p, x, y, *, BM=16, BN=256):
    j, i = p.id(0), p.id(1)
    p.write(y, [BM, BN])[i, j] = p.read(x, [BM, BN])[i, j] * 2


def far() -> str:
    """More than 2^31 elements: in one dimension, in two, by columns, and in part."""
    height, width = 65_600, 32_760
    count = height * width + 100_003
    x = torch.randint(-100, 100, (count,), dtype=torch.int8, device="cuda").to(torch.bfloat16)
    y = torch.full_like(x, float("nan"))
    doubled(x, y)
    require(torch.equal(y, x * 2), "a vector of more than 2^31 elements")
    square, out = x[: height * width].view(height, width), y[: height * width].view(height, width)
    out.fill_(float("nan"))
    doubled_blocks(square, out)
    require(torch.equal(out, square * 2), "a matrix of more than 2^31 elements")
    out.fill_(float("nan"))
    doubled_blocks(square.T, out.T, BM=64, BN=64)
    require(torch.equal(out, square * 2), "the same turned")
    out.fill_(0)
    doubled(square[:, -1], out[:, 7])
    require(torch.equal(out[:, 7], square[:, -1] * 2), "a column whose elements are far apart")
    require(not out[:, 8:].any() and not out[:, :7].any(), "what lies beside that column")
    out.fill_(0)
    doubled(x[-1001:], y[-1001:])
    require(torch.equal(y[-1001:], x[-1001:] * 2), "the end alone")
    across, near = square[:4096, :8].T, torch.empty(8, 4096, device="cuda")  # its elements are 65 kB apart
    row_cases.softmax(across, near, COLUMNS=4096, ROWS=1)
    off = (near.double() - across.double().softmax(1)).abs().max()
    require(off < 1e-6, f"a softmax of elements that are far apart is off by {off:.2g}")
    return f"{count} elements"


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda")


def streams() -> str:
    """A launch waits for what its stream does before, on the current stream and on a given one."""
    side = torch.cuda.Stream()
    ways: dict[str, Callable[..., object]] = {
        "given": lambda x, y: doubled(x, y, stream=side),
        "given as a number": lambda x, y: doubled(x, y, stream=side.cuda_stream),
        "current": lambda x, y: _on(side, lambda: doubled(x, y)),
        "current, with constants": lambda x, y: _on(side, lambda: doubled(x, y, BLOCK=4096)),
    }
    for name, launch in ways.items():
        for turn in range(4):  # the third launch like another is a native repeat
            x, y, other = numbers(10_000), numbers(10_000), numbers(10_000)
            torch.cuda.synchronize()
            with torch.cuda.stream(side):
                torch.cuda._sleep(20_000_000)
                x.copy_(other)
            launch(x, y)
            side.synchronize()
            require(torch.equal(y, other * 2), f"order on a stream, {name}, launch {turn}")
    return f"{len(ways)} ways"


def _on(stream: torch.cuda.Stream, launch: Callable[[], object]) -> None:
    with torch.cuda.stream(stream):
        launch()


def graphs() -> str:
    """Launches in a captured graph, repeated on other values: known ones, and ones that the capture loads."""

    @tile.kernel(grid=lambda y, BLOCK: tile.cdiv(y.shape[0], BLOCK))
    def new(p, x, y, *, BLOCK=256):
        i = p.id(0)
        p.write(y, [BLOCK])[i] = p.read(x, [BLOCK])[i] * 2

    x, y, z, w = (numbers(5000) for _ in range(4))
    for _ in range(3):
        doubled(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled(x, y)
        doubled(y, z, BLOCK=1024)
        new(z, w)
    for _ in range(2):
        x.copy_(numbers(5000))
        for out in (y, z, w):
            out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        require(torch.equal(w, x * 8) and torch.equal(y, x * 2), "a graph's results")
    return ""


def second_gpu() -> str:
    """Tensors of a second GPU while the first is current; tensors of two are refused."""
    if torch.cuda.device_count() < 2:
        return "one GPU: not run"
    x, y = torch.randn(5000, device="cuda:1"), torch.empty(5000, device="cuda:1")
    near, out = numbers(5000), numbers(5000)
    for turn in range(4):
        doubled(x, y)
        doubled(near, out)
        torch.cuda.synchronize(1)
        require(torch.equal(y, x * 2), f"launch {turn} on cuda:1")
        torch.cuda.synchronize(0)
        require(torch.equal(out, near * 2), f"launch {turn} on cuda:0")
    require(torch.cuda.current_device() == 0, "the current device")
    try:
        doubled(near, y)
    except tile.TileError as error:
        require("on cuda:0 and argument 'y' on cuda:1" in str(error), str(error))
    else:
        raise AssertionError("tensors of two devices were not refused")
    a, b = (torch.randn(100, 100, device="cuda:1", dtype=torch.bfloat16) for _ in range(2))
    c = torch.empty(100, 100, device="cuda:1")
    product_cases.matmul(a, b, c)
    bound = 200 * 2.0**-24 * (a.double().abs() @ b.double().abs())
    require(((c.double() - a.double() @ b.double()).abs() <= bound).all(), "a product on cuda:1")
    return "two GPUs"


def cupy_tensors() -> str:
    """CuPy's arrays, also backwards, offset, stretched and on a stream of CuPy's own."""
    cupy = importlib.import_module("cupy")
    a, b = cupy.random.standard_normal((100, 70)), cupy.random.standard_normal((70, 90))
    a, b, c = a.astype(cupy.float32), b.astype(cupy.float32), cupy.empty((100, 90), cupy.float32)
    views = {
        "plain": (a, b, c),
        "backwards": (a[::-1, ::-1], b[::-1], c[:, ::-1]),
        "turned and offset": (a.T[1:, :].T, b[1:], c),
        "stretched": (cupy.broadcast_to(a[:1], (100, 70)), b, c),
    }
    for name, (left, right, out) in views.items():
        for _ in range(3):
            out[...] = float("nan")
            product_cases.matmul(left, right, out)
        truth = left.astype(cupy.float64) @ right.astype(cupy.float64)
        bound = 150 * 2.0**-24 * (abs(left).astype(cupy.float64) @ abs(right).astype(cupy.float64))
        require((abs(out - truth) <= bound).all(), f"a product of CuPy's arrays, {name}")
    x, y = a[::-1, ::2], cupy.empty((100, 35), cupy.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        elementwise_cases.transpose(x, y[:, ::-1].T)
        stream.synchronize()
    require((y == x[:, ::-1]).all(), "a transposition of CuPy's views")
    return f"CuPy {cupy.__version__}"


def jax_tensors() -> str:
    """JAX's arrays are read; to write them is refused."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax = importlib.import_module("jax")
    x = jax.random.normal(jax.random.key(0), (5000,))
    require(next(iter(x.devices())).platform == "gpu", "JAX has no GPU here")
    y = torch.empty(5000, device="cuda")
    for _ in range(4):
        y.fill_(float("nan"))
        doubled(x, y)
    require(np.array_equal(y.cpu().numpy(), np.asarray(x) * 2), "a JAX array's double")
    half = jax.numpy.asarray(x[:4096].reshape(64, 64), jax.numpy.bfloat16)
    c = torch.empty(64, 64, device="cuda")
    product_cases.matmul(half, half, c)
    wide = np.asarray(half).astype(np.float64)
    bound = 128 * 2.0**-24 * (abs(wide) @ abs(wide))
    require((abs(c.double().cpu().numpy() - wide @ wide) <= bound).all(), "a product of JAX's BF16 arrays")
    try:
        doubled(y, x)
    except tile.TileError as error:
        require("is read-only" in str(error), str(error))
    else:
        raise AssertionError("a JAX array was written")
    return f"JAX {jax.__version__}"


def numba_tensors() -> str:
    """Numba's device arrays, and a stream of Numba's."""
    cuda = importlib.import_module("numba.cuda")
    x = np.random.default_rng(0).standard_normal(5000, dtype=np.float32)
    given, out, stream = cuda.to_device(x), cuda.device_array(5000, np.float32), cuda.stream()
    for turn in range(4):
        doubled(given, out)
        cuda.synchronize()
        require(np.array_equal(out.copy_to_host(), x * 2), f"launch {turn} of Numba's arrays")
    doubled(given[::2], out[:2500], stream=stream)
    stream.synchronize()
    require(np.array_equal(out.copy_to_host()[:2500], x[::2] * 2), "a launch on Numba's stream")
    return f"Numba {importlib.import_module('numba').__version__}"


def sentences() -> str:
    """The sentence embeddings of the example, with CuPy's arrays in place of NumPy's, against float64.

    The model's package is large: where it is missing, a file made by ``check.py --keep-model`` is
    read, and without that the weights are random ones of the same sizes.
    """
    cupy = importlib.import_module("cupy")
    example = importlib.import_module("sentence_embeddings")
    what, ids, used, weights = model(example)
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    truth = example.encode(example.NumpyEncoder(), wide, ids, used.astype(np.float64))
    on_gpu = {name: cupy.asarray(array) for name, array in weights.items()}
    arrays = cupy.asarray(ids), cupy.asarray(used)
    example.np = cupy
    try:
        vectors = [example.encode(example.TileEncoder(), on_gpu, *arrays) for _ in range(2)]
    finally:
        example.np = np
    require((vectors[0] == vectors[1]).all(), "a second run gives other bits")
    cosine = float((cupy.asnumpy(vectors[0]) * truth).sum(1).min())
    require(cosine >= 0.99999, f"cosine {cosine:.7f} to float64")
    return f"{what}, cosine to float64 at least {cosine:.8f}"


def model(example: types.ModuleType) -> tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """What the weights are, the sentences' token numbers, which are tokens, and the weights."""
    if MODEL.exists():
        kept = dict(np.load(MODEL))
        return "the real model", kept.pop("ids"), kept.pop("used"), kept
    try:
        tokenizer, weights = example.load()
    except ImportError:
        tokenizer, weights = _stand_ins(example)
        return "random weights", *example.tokenize(tokenizer, example.SENTENCES), weights
    return "the real model", *example.tokenize(tokenizer, example.SENTENCES), weights


def _stand_ins(example: types.ModuleType) -> tuple[object, dict[str, np.ndarray]]:
    """Random weights of the same shapes and words for tokens, as the tests of the examples make them."""
    texts = importlib.import_module("test_examples").STAND_INS
    folder = Path(tempfile.mkdtemp())
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for name in list(sys.modules):
        if name.partition(".")[0] in ("tokenizers", "safetensors"):
            del sys.modules[name]
    sys.path.insert(0, str(folder))
    return example.load()


def keep_model() -> None:
    """Write what the example's sentences need of the model: of the embeddings only their tokens' rows."""
    example = importlib.import_module("sentence_embeddings")
    tokenizer, weights = example.load()
    ids, used = example.tokenize(tokenizer, example.SENTENCES)
    tokens, places = np.unique(ids, return_inverse=True)
    words = "embeddings.word_embeddings.weight"
    weights[words] = weights[words][tokens]
    kept = {name: array for name, array in weights.items() if name.startswith(("embeddings.", "encoder."))}
    MODEL.parent.mkdir(exist_ok=True)
    np.savez_compressed(MODEL, ids=places.reshape(ids.shape), used=used, **kept)


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
def told_product(p, a, b, y, *, BM=64, BN=64):
    i, j = p.id(0), p.id(1)
    A, B, Y = p.read(a, [BM, 32]), p.read(b, [32, BN]), p.write(y, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(A.blocks(1)):
        acc += A[i, k] @ B[k, j]
        p.print("turn", k, "of", i, j, "so far", acc)
        if k > j:
            p.print("later", A[i, k].sum(1).sum(0))
    p.check(acc < 10, "small", acc)
    Y[i, j] = acc


def told() -> str:
    """What programs print and check: the CPU's text, also of many launches on two streams."""

    def launched(device: str, stream: object = None) -> tuple[str, str]:
        a = torch.arange(256 * 96).remainder(7).reshape(256, 96).to(torch.float16).to(device)
        b = torch.eye(96, 200).to(torch.float16).to(device)
        y = torch.zeros(256, 200, device=device)
        output, problem = io.StringIO(), ""
        torch.cuda.synchronize()
        with contextlib.redirect_stdout(output):
            try:
                told_product(a, b, y, debug=True, **({"stream": stream} if stream else {}))
            except tile.TileError as error:
                problem = error.message
        return output.getvalue(), problem

    want = launched("cpu")
    require(want[0].count("turn") == 48 and want[0].count("later") == 12, "the CPU's text")
    for _ in range(20):
        for stream in (None, torch.cuda.Stream()):
            require(launched("cuda", stream) == want, "the text of a GPU")
    return f"{len(want[0].splitlines())} lines"


def programs_of_pages() -> str:
    """The programs of the README and the other pages, those that need a GPU too."""
    here, count = os.getcwd(), 0
    for page in pages.PAGES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            pages.write_files(page, folder)
            os.chdir(folder)
            try:
                for block, printed in pages.run_programs(page, folder, gpu=True):
                    pages.check_output(block, printed, folder)
                    count += 1
            finally:
                os.chdir(here)
    return f"{count} programs"


PARTS: dict[str, Callable[[], str]] = {
    "pages": programs_of_pages,
    "far": far,
    "streams": streams,
    "graphs": graphs,
    "told": told,
    "second gpu": second_gpu,
    "cupy": cupy_tensors,
    "jax": jax_tensors,
    "numba": numba_tensors,
    "sentences": sentences,
}
