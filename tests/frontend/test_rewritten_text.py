"""What the rewritten text keeps of the person's, and the places that it points at."""

import io
import textwrap

import pytest
from explicit import explicit, ir, rewritten, same_ir, tensor, written

import gizml_tile as tile
from gizml_tile.frontend import capture, rewrite


def test_comments_and_formatting_stay():
    source = """
    def kernel(p, x, y):
        \"\"\"What it is for.\"\"\"
        # before
        X = p.read(x, [4])   # odd   spacing

        out = ( X[0]
                + 1 )  # kept
        text = f"{X!r:>10} {'a' if True else 'b'}"
        print( x.dtype , text, file = sink )
        p.write(y, [4])[0] = out
    """
    function = written(source, sink=io.StringIO())
    assert explicit(function) == textwrap.dedent(
        """
        def kernel(p, x, y):
            \"\"\"What it is for.\"\"\"
            # before
            X = p.read(x, [4])   # odd   spacing

            out = ( X.at([0]).add(1) )  # kept
            text = f"{X!r:>10} {'a' if True else 'b'}"
            print( x.dtype , text, file = sink )
            p.write(y, [4]).put(out, [0])
        """
    ).lstrip("\n")


def test_a_preview_needs_only_the_originals_globals():
    size, kind = (2, 4), type("Kind", (), {})

    @tile.kernel(grid=1)
    def run(p, x: kind, n=size, *rest: kind, S: int = size[1], K=4, **more: kind) -> kind:
        p.write(x, [S])[0] = n[0]

    assert run.preview().splitlines()[0] == (
        "def run(p, x: 'kind', n=(2, 4), *rest: 'kind', S: int = 4, K=4, **more: 'kind') -> 'kind':"
    )


def test_the_original_is_written_like_the_explicit_text():
    source = (
        "class Holder:\n    # before\n    @mark\n    # between\n    def run(p, x):\n"
        '        text = """\n  odd\n"""\n        p.write(x, [4])[0] = 1  # one\n'
    )
    function = written(f"{source}run = Holder.run\n", "run", mark=lambda function: function)
    original = rewrite(capture(function), "kernel").original
    assert original == (
        'def run(p, x):\n    text = """\n  odd\n"""\n    p.write(x, [4])[0] = 1  # one\n'
    )
    assert explicit(function) == original.replace("[0] = 1", ".put(1, [0])")


def test_tracebacks_point_at_the_persons_expression():
    source = """
    def kernel(p, x, y, n):
        X = p.read(x, [4])
        out = X[0]
        for k in range(4):
            out = out + (boom(k) if n else 1)
        p.write(y, [4])[0] = out
    """

    def boom(k):
        raise ZeroDivisionError

    function = written(source, boom=boom, filename="<places>")
    with pytest.raises(ZeroDivisionError) as caught:
        ir(rewritten(function), tensor("x", 1), tensor("y", 1), True)
    frames = [
        frame for frame in _frames(caught.tb) if frame.tb_frame.f_code.co_filename == "<places>"
    ]
    lines = [frame.tb_lineno for frame in frames]
    assert lines == [4, 5, 5]
    names = [frame.tb_frame.f_code.co_name for frame in frames]
    assert names[:2] == ["kernel", "kernel"]


def _frames(tb):
    while tb is not None:
        yield tb
        tb = tb.tb_next


def test_every_line_of_the_rewritten_code_is_the_persons():
    source = """
    def kernel(p, x, y, n):
        out = p.read(x, [4])[0]

        for k in range(n):
            if k < 2:
                out = out + 1
            else:
                out = out * 2
        p.write(y, [4])[0] = out if n > 1 else 0
    """

    def lines(code):
        found = {line for _, _, line in code.co_lines() if line is not None}
        for each in code.co_consts:
            if hasattr(each, "co_lines"):
                found |= lines(each)
        return found

    function = written(source)
    assert lines(rewritten(function).__code__) == {1, 2, 4, 5, 6, 7, 8, 9}
    assert rewritten(function).__code__.co_filename == function.__code__.co_filename


def test_columns_count_characters_beyond_ascii():
    source = "def kernel(p, x, y):\n    é = p.read(x, [4])[0]; ü = é + 'ß'\n"
    function = written(source)
    with pytest.raises(tile.TileError) as caught:
        ir(rewritten(function), tensor("x", 1), tensor("y", 1))
    assert (caught.value.lineno, caught.value.column) == (2, 32)


def test_positions_in_a_tab_indented_file():
    source = (
        "class Holder:\n\tdef kernel(p, x):\n\t\tout = p.read(x, [4])[0]\n\t\tout = out + 'a'\n"
    )
    holder = {}
    import linecache

    filename = "<tabs>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), holder)
    with pytest.raises(tile.TileError) as caught:
        ir(rewritten(holder["Holder"].kernel), tensor("x", 1))
    assert (caught.value.lineno, caught.value.column) == (4, 9)
    assert "\t\t      ^^^^^^^^^" in str(caught.value)


def test_a_text_that_is_named_as_ours():
    function = written(
        "def kernel(p, x, then_1, else_1):\n    if p.id(0) == 1:\n        p.write(x, [4])[0] = 1\n    else:\n        p.write(x, [4])[0] = 2\n"
    )
    text = explicit(function)
    assert "def then_2():" in text and "def else_2():" in text
    same_ir(function, tensor("x", 1), None, None)


@pytest.mark.parametrize("count", [150, 600])
def test_long_expressions(count):
    source = f"def kernel(p, x):\n    t = p.read(x, [4])[0]\n    t = t{' + 1' * count}\n"
    function = written(source)
    if count < 200:
        assert explicit(function).count(".add(1)") == count
        return
    with pytest.raises(
        tile.TileError, match="kernel holds an expression of too many parts"
    ) as caught:
        explicit(function)
    assert caught.value.lineno == 1
