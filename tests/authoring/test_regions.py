"""Cutting answers out: nothing of an answer stays, nothing else goes, a bad source is refused with its line."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from efflab.authoring.errors import AuthoringError
from efflab.authoring.markers import BEGIN, END
from efflab.authoring.regions import Solution, answer


def parsed(text: str) -> Solution:
    return Solution(textwrap.dedent(text).lstrip("\n"), "solutions/x.py")


def refused(text: str) -> str:
    with pytest.raises(AuthoringError) as caught:
        parsed(text)
    return str(caught.value)


PLAIN = '''
    """Module."""
    import torch


    # What it is for.
    @decorated
    def f(x):
        """Contract."""
        before = 1
        # BEGIN SOLUTION
        y = x + before

        return y
        # END SOLUTION


    def g(x):
        return f(x)
'''


def test_a_plain_function_raises_in_place_of_its_answer() -> None:
    assert parsed(PLAIN).stub("f") == textwrap.dedent('''\
        # What it is for.
        @decorated
        def f(x):
            """Contract."""
            before = 1
            raise NotImplementedError("f: your code goes here")''')


def test_the_answer_has_no_markers() -> None:
    full = parsed(PLAIN).full("f")
    assert "return y" in full
    assert "SOLUTION" not in full
    assert "return y\n\n\n" not in full
    assert full == full.rstrip()


def test_the_whole_module_is_cut_and_the_rest_stays() -> None:
    text = textwrap.dedent(PLAIN).lstrip("\n")
    kept = text.replace(text[text.index("    # BEGIN"):text.index("\n\n\ndef g")],
                        '    raise NotImplementedError("f: your code goes here")')
    assert parsed(PLAIN).cut() == kept


def test_code_after_the_region_stays() -> None:
    solution = parsed("""
        def f(x):
            # BEGIN SOLUTION
            y = x
            # END SOLUTION
            return y
    """)
    assert solution.stub("f").endswith('raise NotImplementedError("f: your code goes here")\n    return y')


@pytest.mark.parametrize("decorators", ["@triton.jit", "@jit", "@triton.jit(do_not_specialize=['n'])",
                                        "@triton.autotune(configs=[], key=[])\n@triton.jit"])
def test_a_kernel_passes_in_place_of_its_answer(decorators: str) -> None:
    solution = Solution(f"{decorators}\ndef k(p, n):\n    i = 0\n    # BEGIN SOLUTION\n    store(p, i)\n"
                        "    # END SOLUTION\n", "solutions/x.py")
    assert solution.stub("k") == f"{decorators}\ndef k(p, n):\n    i = 0\n    pass  # your code goes here"


def test_indentation_follows_the_region() -> None:
    solution = parsed("""
        def f(x):
          for i in x:
             if i:
                # BEGIN SOLUTION
                yield i
                # END SOLUTION
             else:
                yield 0
    """)
    assert ' ' * 8 + 'raise NotImplementedError("f: your' in solution.stub("f")
    assert "else:" in solution.stub("f")


def test_tabs_are_kept() -> None:
    solution = Solution("def f():\n\tx = 1\n\t# BEGIN SOLUTION\n\treturn x\n\t# END SOLUTION\n", "solutions/x.py")
    assert solution.stub("f") == 'def f():\n\tx = 1\n\traise NotImplementedError("f: your code goes here")'


def test_methods_nested_and_async_functions_are_named_in_full() -> None:
    solution = parsed("""
        class Cache:
            limit = 3

            def append(self, x):
                '''Keep x.'''
                # BEGIN SOLUTION
                self.x = x
                # END SOLUTION

            async def fetch(self):
                # BEGIN SOLUTION
                return 1
                # END SOLUTION


        def outer(x):
            def inner(y):
                # BEGIN SOLUTION
                return y
                # END SOLUTION
            return inner(x)
    """)
    cut = solution.cut()
    assert '        raise NotImplementedError("Cache.append: your code goes here")' in cut
    assert '        raise NotImplementedError("Cache.fetch: your code goes here")' in cut
    assert '        raise NotImplementedError("outer.inner: your code goes here")' in cut
    assert "    return inner(x)" in cut
    ast.parse(cut)


def test_every_kind_of_block_can_hold_a_region() -> None:
    solution = parsed("""
        def f(x):
            try:
                pass
            except ValueError:
                # BEGIN SOLUTION
                one = 1
                # END SOLUTION
            else:
                # BEGIN SOLUTION
                two = 2
                # END SOLUTION
            finally:
                # BEGIN SOLUTION
                three = 3
                # END SOLUTION
            match x:
                case 1:
                    # BEGIN SOLUTION
                    four = 4
                    # END SOLUTION
            with x:
                # BEGIN SOLUTION
                five = 5
                # END SOLUTION
    """)
    assert solution.stub("f").count("NotImplementedError") == 5
    assert not any(word in solution.stub("f") for word in ("one", "two", "three", "four", "five"))


def test_marker_text_in_strings_and_nested_definitions_in_answers_are_left_alone() -> None:
    solution = parsed('''
        TEXT = """
        # BEGIN SOLUTION
        """


        def f(x):
            """Write between
            # BEGIN SOLUTION
            and the other one."""
            # BEGIN SOLUTION
            def helper():
                return """
        # END SOLUTION
        """
            return helper()
            # END SOLUTION
    ''')
    assert solution.full("TEXT") == 'TEXT = """\n# BEGIN SOLUTION\n"""'
    assert "# BEGIN SOLUTION\n    and the other one" in solution.stub("f")
    assert "helper" not in solution.stub("f")
    assert '# END SOLUTION\n"""' in solution.full("f")


def test_windows_lines_unicode_and_odd_separators_do_not_shift_anything() -> None:
    text = ('\ufeffMARK = "a\x0cb\u2028c\x85d ∑"\n\n\ndef φ(x):\n    """Σ x².\x0c"""\n    # BEGIN SOLUTION\n'
            '    return "\u2028é"\n    # END SOLUTION\n')
    for source in (text, text.replace("\n", "\r\n")):
        solution = Solution(source, "solutions/x.py")
        assert solution.stub("φ") == ('def φ(x):\n    """Σ x².\x0c"""\n'
                                      '    raise NotImplementedError("φ: your code goes here")')
        assert "\r" not in solution.cut()


def test_definitions_are_functions_classes_and_constants() -> None:
    solution = parsed("""
        import torch
        A, (B, C) = 1, (2, 3)
        D: int = 4
        E = {
            "x": 1,
        }
        class F: pass
        if A:
            G = 1
    """)
    assert list(solution.definitions) == ["A", "B", "C", "D", "E", "F"]
    assert solution.full("E") == 'E = {\n    "x": 1,\n}'
    with pytest.raises(AuthoringError, match=r"defines no 'G' at its top level. It defines: A, B, C, D, E, F"):
        solution.full("G")


def test_a_ruler_above_an_empty_line_is_no_part_of_a_definition() -> None:
    assert parsed("# --- 1. Part ---\n\ndef f():\n    return 1\n").full("f") == "def f():\n    return 1"


def test_an_answer_shows_its_kernels_too() -> None:
    solution = parsed("""
        def launch(x):
            # BEGIN SOLUTION
            return kernel[(1,)](x)
            # END SOLUTION


        @triton.jit
        def part(x):
            # BEGIN SOLUTION
            return x
            # END SOLUTION


        @triton.jit
        def given(x):
            return x


        @triton.jit
        def kernel(x):
            # BEGIN SOLUTION
            part(given(x))
            # END SOLUTION
    """)
    assert solution.kernels_of("launch") == ("part", "kernel")
    assert [solution.answer("launch").index(n) for n in ("def part", "def kernel", "def launch")] == sorted(
        solution.answer("launch").index(n) for n in ("def part", "def kernel", "def launch"))
    assert "def given" not in solution.answer("launch")


def test_the_start_pages_answer() -> None:
    shown = answer("start_here", "rms")
    assert shown.startswith("def rms(")
    assert "SOLUTION" not in shown
    assert "NotImplementedError" not in shown


BODY = "def f(x):\n    '''Contract.'''\n    a = 1\n"


@pytest.mark.parametrize(("text", "line", "words"), [
    (BODY + "    # BEGIN SOLUTION\n    return x\n", 4, "never closed"),
    (BODY + "    return x\n    # END SOLUTION\n", 5, "without a"),
    (BODY + "    # BEGIN SOLUTION\n    # BEGIN SOLUTION\n    return x\n    # END SOLUTION\n",
     5, "inside the region"),
    (BODY + "    # BEGIN SOLUTION\n    return x\n  # END SOLUTION\n", 6, "column 3"),
    (BODY + "# BEGIN SOLUTION\n    return x\n# END SOLUTION\n", 4, "indent them alike"),
    (BODY + "    # BEGIN SOLUTION\n    # END SOLUTION\n", 4, "no whole statement"),
    (BODY + "    # BEGIN SOLUTION\n\n    # return x\n    # END SOLUTION\n", 4, "no whole statement"),
    (BODY + "    return x  # BEGIN SOLUTION\n    # END SOLUTION\n", 4, "alone on its line"),
    (BODY + "    #BEGIN SOLUTION\n    return x\n    # END SOLUTION\n", 4, "nearly a marker"),
    (BODY + "    # begin solution\n    return x\n    # END SOLUTION\n", 4, "nearly a marker"),
    (BODY + "    # BEGIN SOLUTION\n    return x\n    # END SOLUTION of f\n", 6, "nearly a marker"),
    ("# BEGIN SOLUTION\nA = 1\n# END SOLUTION\n", 1, "not inside a function"),
    ("# BEGIN SOLUTION\ndef f():\n    return 1\n# END SOLUTION\n", 1, "not inside a function"),
    ("class C:\n    # BEGIN SOLUTION\n    a = 1\n    # END SOLUTION\n", 2, "not inside a function"),
    ("def f():\n    # BEGIN SOLUTION\n    '''Contract.'''\n    return 1\n    # END SOLUTION\n", 2, "docstring of f"),
    (BODY + "    # BEGIN SOLUTION\n    b = 1\n    if a:\n        pass\n    # END SOLUTION\n    else:\n        pass\n",
     4, "reaches across"),
    (BODY + "    if a:\n        # BEGIN SOLUTION\n        b = 1\n    else:\n        b = 2\n        # END SOLUTION\n",
     5, "reaches across"),
    (BODY + "    # BEGIN SOLUTION\n    b = [\n        1,\n    # END SOLUTION\n    ]\n",
     4, "no whole statement"),
    (BODY + "    # BEGIN SOLUTION\n    return x\n    # END SOLUTION\ndef f(x):\n    return 2\n",
     7, "second time"),
    ("def f(:\n    pass\n", 1, "not Python"),
    ("def f():\n    a = '''never closed\n", 2, "not Python"),
])
def test_a_bad_source_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    message = refused(text)
    assert message.startswith(f"solutions/x.py:{line}: "), message
    assert words in message


def test_a_stub_that_would_not_compile_is_refused() -> None:
    message = refused("""
        def f():
            # BEGIN SOLUTION
            y = 1
            # END SOLUTION
            def g():
                nonlocal y
                y = 2
    """)
    assert message.startswith("solutions/x.py:1: the stub of f would not compile")


@given(depth=st.integers(0, 4), width=st.integers(1, 5), before=st.integers(0, 3), inside=st.integers(1, 4),
       after=st.integers(0, 3), kernel=st.booleans())
def test_whatever_the_shape_exactly_the_region_goes(depth: int, width: int, before: int, inside: int, after: int,
                                                    kernel: bool) -> None:
    lines = (["@triton.jit"] if kernel else []) + ["def f(x):"]
    pad = " " * width
    for level in range(depth):
        lines.append(pad * (level + 1) + f"if x > {level}:")
    pad *= depth + 1
    kept = [f"{pad}kept_{i} = {i}" for i in range(before)]
    secret = [f"{pad}secret_{i} = {i}" for i in range(inside)]
    later = [f"{pad}later_{i} = {i}" for i in range(after)]
    source = "\n".join([*lines, *kept, pad + BEGIN, *secret, pad + END, *later]) + "\n"
    solution = Solution(source, "solutions/x.py")
    statement = "pass  # your code goes here" if kernel else 'raise NotImplementedError("f: your code goes here")'
    assert solution.cut() == "\n".join([*lines, *kept, pad + statement, *later]) + "\n"
    assert solution.full("f") == "\n".join([*lines, *kept, *secret, *later])
