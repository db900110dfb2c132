"""What the template engine offers chat templates, and what it denies hostile ones."""

from __future__ import annotations

import re
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golem_host.errors import BadRequest
from golem_host_chat import template_meter, templates
from golem_host_chat.templates import ChatTemplate, TemplateError

HELLO = [{"role": "user", "content": "hello"}]


def render(source, messages=HELLO, **options):
    return ChatTemplate(source, "<s>", "</s>").render(messages, **options)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        # blocks leave no blank lines, and one final newline of the source is dropped
        ("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc"),
        (
            "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% elif i == 3 %}{% break %}{% endif %}{{ i }}"
            "{% endfor %}",
            "02",
        ),
        ("{% generation %}x{{ messages[0].content }}{% endgeneration %}y", "xhelloy"),
        (
            "{% for i in [1, 2] %}{% generation %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endgeneration %}"
            "{% endfor %}",
            "2",
        ),
        ("{{ nothing }}|{{ messages[0].nothing }}|{{ 'x' if false }}|{{ nothing is defined }}", "|||False"),
        ("{{ none }} {{ true }} {{ 1.0 }} {{ {'a': [1, 'b']} }}", "None True 1.0 {'a': [1, 'b']}"),
        ("{{ {'b': 'ä<&>', 'a': [none, true, 1.5]} | tojson }}", '{"b": "ä<&>", "a": [null, true, 1.5]}'),
        ("{{ {'b': 'ä'} | tojson(ensure_ascii=True) }}", '{"b": "\\u00e4"}'),
        ("{{ {'b': 1, 'a': [2]} | tojson(indent=2) }}", '{\n  "b": 1,\n  "a": [\n    2\n  ]\n}'),
        ("{{ {'b': 1, 'a': 2} | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":2,"b":1}'),
        ("{% set ns = namespace(n=0) %}{% for i in range(3) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "3"),
        ("{% macro m(x, y='!') %}{{ x ~ y }}{% endmacro %}{{ m('a') }}{{ m('b', y='?') }}", "a!b?"),
        ("{% macro m(n) %}{{ n }}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "3210"),
        ("{% set x %}<{{ 1 }}>{% endset %}{{ x * 2 }}", "<1><1>"),
        ("{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}", "[in]"),
        ("{% filter upper %}loud{% endfilter %}", "LOUD"),
        (
            "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ loop.index0 }}{{ a }}{{ b }}{{ loop.last }} {% endfor %}",
            "0x1False 1y2True ",
        ),
        ("{% for m in [1, 2, 3] if m != 2 %}{{ loop.previtem }}{{ m }}{{ loop.nextitem }};{% endfor %}", "13;13;"),
        ("{{ [1, 2, 3][::-1] }}{{ 'abc'[1:] }}{{ range(3, 0, -1) | list }}", "[3, 2, 1]bc[3, 2, 1]"),
        ("{{ '  x '.strip() }}{{ 'a,b'.split(',') | join('+') }}{{ 'a-b-c'.rsplit('-', 1)[0] }}", "xa+ba-b"),
        ("{{ 'ab'.startswith('a') }}{{ 'x{}y{}'.format(1, 'z') }}{{ '%s=%d' % ('a', 3) }}", "Truex1yza=3"),
        ("{{ 'aXbX'.replace('X', '--') }}{{ 'ab'.title() }}{{ 'abc' | replace('b', '') }}", "a--b--Abac"),
        ("{{ messages[0].get('name', 'nobody') }}{{ messages[0].keys() | list }}", "nobody['role', 'content']"),
        ("{{ [3, 1] | sort | first }}{{ [1, 1, 2] | unique | list }}{{ [1, 2] | map('string') | join }}", "1[1, 2]12"),
        ("{{ [{'r': 'a'}, {'r': 'b'}] | selectattr('r', 'equalto', 'b') | list | length }}", "1"),
        ("{{ {'b': 1, 'a': 2} | dictsort }}{{ 'x\ny' | indent(2) }}{{ ' a ' | trim }}", "[('a', 2), ('b', 1)]x\n  ya"),
        ("{{ nothing | default('d') }}{{ '' | default('e', true) }}{{ '7' | int + 1 }}", "de8"),
        (
            "{{ messages is sequence }}{{ messages[0] is mapping }}{{ 'a' is string }}{{ none is none }}",
            "TrueTrueTrueTrue",
        ),
        ("{{ 1 < 2 < 3 }}{{ 'a' in ['a', 'b'] }}{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 5 }}", "TrueTrue3332"),
        ("{{ dict(a=1) }}{% set c = cycler('o', 'e') %}{{ c.next() }}{{ c.next() }}", "{'a': 1}oe"),
        ("{{ '{0.__class__}'.format(1) }}", ""),
        ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
        ("{{ tools is defined }}", "False"),
    ],
)
def test_engine(source, text):
    assert render(source) == text


def test_dates_are_local_and_of_today():
    source = "{{ strftime_now('%Y-%m-%d') }}|{{ date_string }}|{{ datetime }}"
    before = datetime.now()
    text = render(source)
    days = {day.strftime("%Y-%m-%d|%d %b %Y|%b %d %Y") for day in (before, datetime.now())}
    assert text in days


def test_raise_exception_is_a_bad_request_with_the_templates_words():
    with pytest.raises(TemplateError, match="Conversation roles must alternate") as caught:
        render("{{ raise_exception('Conversation roles must alternate') }}")
    assert isinstance(caught.value, BadRequest) and caught.value.status == 400
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{% if %}", "line 1"),
        ("\n\n{% for x in %}", "line 3"),
        ("{{ 'a' | nofilter }}", "nofilter"),
        ("{{ 1 is notest }}", "notest"),
        ("{% unknown %}", "unknown"),
        ("{% generation %}", "endgeneration"),
        ("(" * 10 + "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}", "nested too deeply"),
        ("{% if true %}" * 150 + "{% endif %}" * 150, "does not compile"),
        ("{{ " + " + ".join("1" * 3000) + " }}", "does not compile"),
        ("x" * (templates.MAX_SOURCE + 1), "at most 262144"),
        ("{{ 'x' | random }}", "random"),
    ],
    ids=range(11),
)
def test_sources_that_do_not_compile(source, words):
    with pytest.raises(TemplateError, match=re.escape(words)) as caught:
        ChatTemplate(source, name="tiny.gguf")
    assert "tiny.gguf" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{{ nothing.deeper }}", "'nothing' is undefined"),
        ("{{ messages[0].content + 1 }}", "concatenate"),
        ("{{ none | length }}", "NoneType"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ nothing | tojson }}", "Undefined"),
        ("{% include 'x' %}", "loader"),
        ("{% import 'x' as y %}", "loader"),
        ("{% extends 'x' %}", "loader"),
        ("{{ 5() }}", "not callable"),
        ("{{ {}() }}", "not callable"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested too deeply"),
        ("{% block a %}{{ self.a() }}{% endblock %}", "nested too deeply"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ messages[0].update({}) }}", "unsafe"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ 'x'.encode('utf-8') }}", "unsafe"),
        ("{{ 'x'.translate({}) }}", "unsafe"),
        ("{{ (5).to_bytes(1000000000, 'big') }}", "unsafe"),
        ("{% set ns = namespace() %}{% set ns.__x = 1 %}", "namespace"),
        ("{{ lipsum(n=1000000) }}", "undefined"),
        ("{{ [[1], [2]] | sum(start=[]) }}", "numbers"),
    ],
)
def test_failures_while_rendering_are_bad_requests(source, words):
    template = ChatTemplate(source)
    with pytest.raises(TemplateError, match=re.escape(words)):
        template.render(HELLO)


def grow(start, step):
    """A template that computes x from itself sixty times."""
    return f"{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set ns.x = {step} %}}{{% endfor %}}"


GREEDY = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "nested loops that print": "{% for a in range(99999) %}{% for b in range(99999) %}xyz{% endfor %}{% endfor %}",
    "loop filter": "{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
    "range": "{{ range(10 ** 9) | list }}",
    "product of a string": "{{ 'x' * 1000000000 }}",
    "product the other way round": "{{ 1000000000 * 'x' }}",
    "product of a list": "{{ ([0] * 1000000000) | length }}",
    "doubling by +": grow("'xx'", "ns.x + ns.x"),
    "doubling by ~": grow("'xx'", "ns.x ~ ns.x"),
    "doubling a list": grow("[1]", "ns.x + ns.x"),
    "list of itself": grow("[1]", "[ns.x, ns.x]"),
    "dict of itself": grow("1", "{'a': ns.x, 'b': ns.x}"),
    "dict() of itself": grow("1", "dict(a=ns.x, b=ns.x)"),
    "tuple of itself": grow("1", "(ns.x, ns.x)"),
    "batch of itself": grow("[1]", "[0] | batch(9, ns.x) | list"),
    "power": "{{ 9 ** (9 ** 9) }}",
    "squaring": grow("99", "ns.x * ns.x"),
    "center": "{{ 'x' | center(1000000000) }}",
    "center method": "{{ 'x'.center(1000000000) }}",
    "zfill": "{{ '1'.zfill(1000000000) }}",
    "indent": "{{ 'x\\ny' | indent(1000000000, true) }}",
    "replace": "{% set x = 'x' * 100000 %}{{ x | replace('x', x) }}",
    "replace method": "{% set x = 'x' * 100000 %}{{ x.replace('x', x) }}",
    "join": "{% set x = 'x' * 100000 %}{{ range(99999) | join(x) }}",
    "join method": "{% set x = 'x' * 100000 %}{{ x.join(x) }}",
    "batch": "{{ [1] | batch(1000000000, 0) | list | length }}",
    "slice": "{{ [1] | slice(1000000000) | list | length }}",
    "format method": "{{ '{:1000000000}'.format(1) }}",
    "format method, nested": "{{ '{:{}}'.format(1, 1000000000) }}",
    "format method, repeated": "{% set x = 'x' * 500000 %}{{ ('{0}' * 9000).format(x) }}",
    "format_map": "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
    "format filter": "{{ '%1000000000d' | format(1) }}",
    "printf": "{{ '%01000000000d' % 1 }}",
    "printf precision": "{{ '%.1000000000f' % 1.5 }}",
    "printf star": "{{ '%*d' % (1000000000, 1) }}",
    "printf, repeated": "{% set x = 'x' * 500000 %}{{ ('%(a)s' * 9000) % {'a': x} }}",
    "tojson indent": "{{ [[1]] | tojson(indent=1000000000) }}",
    "tojson separators": "{{ range(9) | list | tojson(separators=('x' * 1000000, ':')) }}",
    "tojson of much": "{{ range(99999) | list | tojson(indent=16) }}" * 9,
    "slices": "{% set ns = namespace(l=[]) %}{% set x = 'x' * 500000 %}"
    "{% for i in range(9999) %}{% set ns.l = ns.l + [x[1:]] %}{% endfor %}",
    "block set": "{% set x = 'x' * 500000 %}{% set y %}{% for i in range(9999) %}{{ x }}{% endfor %}{% endset %}",
    "macro": "{% set x = 'x' * 500000 %}{% macro m() %}{{ x }}{% endmacro %}"
    "{% for i in range(9999) %}{{ m() }}{% endfor %}",
    "recursive loop": "{% for x in [[[[]]]] * 2 recursive %}{{ loop([[1]] * 9999) }}{% endfor %}",
    "split": "{% set x = 'a b' * 200000 %}{% set ns = namespace(l=[]) %}"
    "{% for i in range(99) %}{% set ns.l = ns.l + x.split() %}{% endfor %}",
    "format of strftime": "{{ strftime_now('%c' * 10000) }}",
}


@pytest.mark.parametrize("name", GREEDY)
def test_greedy_templates_are_stopped(name, monkeypatch):
    monkeypatch.setattr(template_meter, "MAX_STEPS", 30_000)
    template = ChatTemplate(GREEDY[name])
    with pytest.raises(TemplateError):
        template.render(HELLO)


def test_a_namespace_that_holds_itself_prints():
    assert (
        render("{% set ns = namespace() %}{% set ns.a = [ns, ns] %}{{ ns }}{{ ns.a }}")
        == "<Namespace>[<Namespace>, <Namespace>]"
    )


def test_processor_time_is_bounded_where_steps_are_not(monkeypatch):
    monkeypatch.setattr(template_meter, "MAX_SECONDS", 0.0)
    with pytest.raises(TemplateError, match="seconds"):
        render("{% for i in range(100) %}{% endfor %}")


def test_the_next_rendering_has_a_budget_of_its_own():
    template = ChatTemplate("{{ messages[0].content * 1000 }}")
    for _ in range(3):
        with pytest.raises(TemplateError, match="too much text"):
            template.render([{"role": "user", "content": "x" * 1_000_000}])
        assert template.render([{"role": "user", "content": "ab"}]) == "ab" * 1000


def test_a_long_conversation_compared_with_itself_is_within_the_budget():
    source = (
        "{% for m in messages %}{% set rest = messages[loop.index0:] %}{% set ns = namespace(n=0) %}"
        "{% for o in messages %}{% if o.role == m.role %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}"
        "{{ m.role ~ ': ' + (m['content'] | trim).split('</think>')[-1].lstrip('\\n') ~ '\\n' }}{% endfor %}"
    )
    messages = [{"role": "user" if turn % 2 else "assistant", "content": f" turn {turn} "} for turn in range(200)]
    assert render(source, messages) == "".join(f"{m['role']}: {m['content'].strip()}\n" for m in messages)
    long = [{"role": "user", "content": "word " * 200_000}]
    assert render(source, long) == "user: " + ("word " * 200_000).strip() + "\n"


def test_no_variable_of_the_request_reaches_the_meter():
    assert render("{{ x }}", kwargs={" meter": None, "x": 1}) == "1"


PIECES = (
    "{{ }} {% %} {# #} - | ~ + . ** % ( ) [ ] 'a' 1 x messages content tojson length range(9) m(x) raise_exception('') "
    "for x in messages:endfor:if x:else:endif:set x =:macro m(x):endmacro:generation:endgeneration:break:\n"
)
SOURCES = st.lists(st.sampled_from([*PIECES.split(" "), *PIECES.split(":")[1:]]), max_size=25).map(" ".join)


@given(SOURCES)
def test_any_source_renders_or_is_a_template_error(source):
    try:
        assert isinstance(render(source), str)
    except TemplateError as error:
        assert str(error)
