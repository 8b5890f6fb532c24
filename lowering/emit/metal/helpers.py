"""Small functions that a text begins with, those that it uses: what MSL leaves open, made exact."""

from __future__ import annotations

# Each stands after those that it uses.
HELPERS: dict[str, tuple[str, ...]] = {
    "wrap_add": (
        "// Integers wrap around; in C++ only unsigned ones do.",
        "inline int wrap_add(int a, int b) { return int(uint(a) + uint(b)); }",
        "inline long wrap_add(long a, long b) { return long(ulong(a) + ulong(b)); }",
    ),
    "wrap_sub": (
        "inline int wrap_sub(int a, int b) { return int(uint(a) - uint(b)); }",
        "inline long wrap_sub(long a, long b) { return long(ulong(a) - ulong(b)); }",
    ),
    "magnitude": (
        "inline int magnitude(int a) { return a < 0 ? int(0u - uint(a)) : a; }",
        "inline long magnitude(long a) { return a < 0 ? long(0ul - ulong(a)) : a; }",
    ),
    "wrap_mul": (
        "inline int wrap_mul(int a, int b) { return int(uint(a) * uint(b)); }",
        "inline long wrap_mul(long a, long b) { return long(ulong(a) * ulong(b)); }",
    ),
    "shift_left": (
        "inline int shift_left(int a, int count) { return int(uint(a) << uint(count)); }",
        "inline long shift_left(long a, long count) { return long(ulong(a) << ulong(count)); }",
    ),
    "shift_right_zeros": (
        "inline int shift_right_zeros(int a, int count) { return int(uint(a) >> uint(count)); }",
        "inline long shift_right_zeros(long a, long count) { return long(ulong(a) >> ulong(count)); }",
    ),
    "quotient": (
        "// Truncated toward zero; the smallest integer divided by -1 is itself.",
        "inline int quotient(int a, int b) { return b == -1 ? int(0u - uint(a)) : a / b; }",
        "inline long quotient(long a, long b) { return b == -1 ? long(0ul - ulong(a)) : a / b; }",
    ),
    "remainder_of": (
        "inline int remainder_of(int a, int b) { return b == -1 ? 0 : a % b; }",
        "inline long remainder_of(long a, long b) { return b == -1 ? 0 : a % b; }",
    ),
    "add_long": (
        "// What may be added to at once are words of 32 bits; the low one's sum tells the carry.",
        "inline void add_long(device long* place, long value) {",
        "    device atomic_uint* words = (device atomic_uint*)(place);",
        "    const uint low = uint(value);",
        "    const uint before = atomic_fetch_add_explicit(words, low, memory_order_relaxed);",
        "    const uint high = uint(ulong(value) >> 32) + (before + low < before ? 1u : 0u);",
        "    atomic_fetch_add_explicit(words + 1, high, memory_order_relaxed);",
        "}",
    ),
    "word_of": (
        "// The word that an element of 16 bits lies in.",
        "inline device atomic_uint* word_of(const device void* place) {",
        "    return reinterpret_cast<device atomic_uint*>(reinterpret_cast<ulong>(place) & ~3ul);",
        "}",
    ),
    "shift_in_word": (
        "inline uint shift_in_word(const device void* place) {",
        "    return (uint(reinterpret_cast<ulong>(place)) & 2u) * 8u;",
        "}",
    ),
    "upper_product": ("inline int upper_product(int a, int b) { return int(mulhi(uint(a), uint(b))); }",),
    "smaller": (
        "// A NaN loses against a number, and -0 lies below +0.",
        "inline float smaller(float a, float b) {",
        "    return a == b ? as_type<float>(as_type<uint>(a) | as_type<uint>(b)) : fmin(a, b);",
        "}",
    ),
    "larger": (
        "// A NaN loses against a number, and +0 lies above -0.",
        "inline float larger(float a, float b) {",
        "    return a == b ? as_type<float>(as_type<uint>(a) & as_type<uint>(b)) : fmax(a, b);",
        "}",
    ),
    "truncated": (
        "// Toward zero, to the nearest integer that there is; of a NaN 0.",
        "inline int truncated(float x, int low, int high) {",
        "    return x != x ? 0 : x <= float(low) ? low : x >= float(high) ? high : int(x);",
        "}",
    ),
    "truncated_long": (
        "// Toward zero, to the nearest integer that there is; of a NaN 0.",
        "inline long truncated_long(float x) {",
        "    return x != x ? 0L : x < -9223372036854775808.0f ? (-9223372036854775807L - 1)",
        "         : x >= 9223372036854775808.0f ? 9223372036854775807L : long(x);",
        "}",
    ),
    "truncated_uint": (
        "// Toward zero, to the nearest integer that there is; of a NaN 0.",
        "inline uint truncated_uint(float x) {",
        "    return x >= 4294967296.0f ? 4294967295u : x > 0.0f ? uint(x) : 0u;",
        "}",
    ),
    "truncated_ulong": (
        "// Toward zero, to the nearest integer that there is; of a NaN 0.",
        "inline ulong truncated_ulong(float x) {",
        "    return x >= 18446744073709551616.0f ? 18446744073709551615ul : x > 0.0f ? ulong(x) : 0ul;",
        "}",
    ),
    "word": (
        "// Two or four neighbours as the 32 bits that they are.",
        "template <typename T>",
        "inline uint word(T a, T b) { return as_type<uint>(vec<T, 2>(a, b)); }",
        "template <typename T>",
        "inline uint word(T a, T b, T c, T d) { return as_type<uint>(vec<T, 4>(a, b, c, d)); }",
    ),
    "hidden_zero": (
        "// A zero of which the compiler does not know: n * n + n is even.",
        "inline uint hidden_zero(int n) { return 0u - ((uint(n) * uint(n) + uint(n)) & 1u); }",
    ),
    "multiply_accumulate": (
        "// c + a @ b of 8x8 matrices of a simdgroup, whose lanes hold two neighbours of a row of each.",
        "template <typename T>",
        "inline void multiply_accumulate(thread float* c, const thread T* a, const thread T* b) {",
        "    simdgroup_matrix<T, 8, 8> left, right;",
        "    simdgroup_matrix<float, 8, 8> sum;",
        "    for (ushort e = 0; e < 2; e++) {",
        "        left.thread_elements()[e] = a[e];",
        "        right.thread_elements()[e] = b[e];",
        "        sum.thread_elements()[e] = c[e];",
        "    }",
        "    simdgroup_multiply_accumulate(sum, left, right, sum);",
        "    c[0] = sum.thread_elements()[0];",
        "    c[1] = sum.thread_elements()[1];",
        "}",
    ),
}
