import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.site import Site, SiteFileError, load


def site_xml(*properties: str) -> str:
    return f"<configuration>{''.join(properties)}</configuration>"


def prop(name: str, value: str, more: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{more}</property>"


FINAL = "<final>true</final>"


# What is expected here is what Hadoop's own Configuration answered to the same text.
def test_a_site_reads_as_hadoop_reads_it():
    text = """<?xml version="1.0" encoding="UTF-8"?>
<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>
<configuration xmlns:xi="http://www.w3.org/2001/XInclude">
<!-- a comment --><xi:include href="more.xml"/>
<xi:include href="missing.xml"><xi:fallback>
  <property><name>fell</name><value>back</value></property></xi:fallback></xi:include>
<property><name> spaced </name><value> v with spaces
 </value></property>
<property><name>plain</name><value>first</value></property>
<property><name>ref</name><value>${plain}/${missing}/x</value></property>
<property><name>nested</name><value>${a.${which}}</value></property>
<property><name>which</name><value>b</value></property>
<property><name>a.b</name><value>deep</value></property>
<property><name>unbound</name><value>${nothing} ${plain}</value></property>
<property><name>bound</name><value>${plain} ${nothing} ${which}</value></property>
<property><name>twice</name><value>1</value></property>
<property><name>twice</name><value>2</value></property>
<property><name>empty</name><value></value></property>
<property><name>none</name></property>
<property name="attribute" value="also"/>
<property><name>dollar</name><value>$plain ${} ${ plain} ${env.} $${plain}</value></property>
<property><name>user</name><value>${user.name}</value></property>
<property><name>fs.default.name</name><value>hdfs://old</value></property>
<property><value>no name</value></property>
<property><name>cdata</name><value><![CDATA[a<b]]>&amp;c</value></property>
<configuration><property><name>inner</name><value>y</value></property></configuration>
</configuration>"""
    files = {"core-site.xml": text, "more.xml": site_xml(prop("included", "yes"))}
    site = load(files, {}, {"user.name": "alice"})
    wanted = {
        "included": "yes",
        "fell": "back",
        "spaced": "v with spaces",
        "ref": "first/${missing}/x",
        "nested": "deep",
        "unbound": "${nothing} ${plain}",
        "bound": "first ${nothing} ${which}",
        "twice": "2",
        "empty": "",
        "none": "",
        "attribute": "also",
        "dollar": "$plain ${} ${ plain} ${env.} $${plain}",
        "user": "alice",
        "fs.defaultFS": "hdfs://old",
        "cdata": "a<b&c",
        "inner": "y",
    }
    assert {name: site.get(name) for name in wanted} == wanted
    assert "empty" not in site
    assert "none" not in site


def test_the_environment_is_named_with_and_without_defaults():
    value = "x-${env.FOO}-${env.NOPE:-d1}-${env.EMPTY:-d2}-${env.EMPTY-d3}-${env.NOPE-d4}"
    site = load({"core-site.xml": site_xml(prop("v", value))}, {"FOO": "foo", "EMPTY": ""})
    assert site.get("v") == "x-foo-d1-d2--d4"
    assert Site({"v": "${env.NOPE}/x"}).get("v") == "${env.NOPE}/x"


def test_later_files_win_in_hadoops_order_whatever_the_order_given():
    files = {"yarn-site.xml": site_xml(prop("x", "yarn"), prop("y", "")),
             "core-site.xml": site_xml(prop("x", "core"), prop("y", "core")),
             "unrelated.xml": "not even XML"}  # fmt: skip
    site = load(files)
    assert site.get("x") == "yarn"
    assert site.get("y") == "core"  # an empty value does not exist, so it overrides nothing


def test_final_properties_are_not_overridden_even_by_their_own_file():
    first = site_xml(
        prop("a", "1", FINAL),
        prop("a", "2"),
        prop("b", "", FINAL),
        f"<property><name>c</name>{FINAL}</property>",
        prop("d", "1", "<final> true </final>"),  # Hadoop takes the bare word only
        prop("e", "1"),
        prop("e", "2", FINAL),
    )
    second = site_xml(*(prop(name, "later") for name in "abcde"))
    site = load({"core-site.xml": first, "yarn-site.xml": second})
    assert {name: site.get(name) for name in "abcde"} == {
        "a": "1", "b": "", "c": "", "d": "later", "e": "2",
    }  # fmt: skip


def test_hadoops_defaults_answer_where_no_file_does():
    site = load({})
    assert site.get("hadoop.rpc.protection") == "authentication"
    assert "hadoop.rpc.protection" not in site
    assert site.get("never.heard.of") == ""
    assert site.get("never.heard.of", "but this") == "but this"
    assert not site.flag("yarn.resourcemanager.ha.enabled")
    assert Site({"v": "[${hadoop.rpc.protection}]"}).get("v") == "[authentication]"


def test_variables_that_go_in_circles_are_a_mistake_with_a_name():
    site = Site({"a": "${b}", "b": "${a}"})
    with pytest.raises(SiteFileError, match=r"a is '\$\{b\}': its variables go in circles"):
        site.get("a")


def test_flags_words_and_numbers():
    site = Site({"yes": "TRUE", "list": " a, b ,,c", "n": " 42 ", "bad": "4x"})
    assert site.flag("yes")
    assert site.words("list") == ["a", "b", "c"]
    assert site.words("none") == []
    assert (site.number("n"), site.number("none", 7)) == (42, 7)
    with pytest.raises(SiteFileError, match="bad is '4x'"):
        site.number("bad")


def test_properties_of_the_command_line_go_on_top():
    site = Site({"a": "${b}", "b": "1"}).with_properties({"b": "2"})
    assert site.get("a") == "2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "core-site.xml is not well-formed XML"),
        ("<configuration>", "core-site.xml is not well-formed XML"),
        ("<html/>", "<configuration> expected, not <html>"),
        ("<configuration>" * 5000 + "</configuration>" * 5000, "nests too deep"),
        ("<configuration>&undefined;</configuration>", "not well-formed"),
        (
            '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">'
            '<xi:include href="gone.xml"/></configuration>',
            "includes 'gone.xml', which is not there",
        ),
        (
            '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">'
            '<xi:include href="core-site.xml"/></configuration>',
            "includes itself",
        ),
    ],
)
def test_files_that_make_no_sense_are_named(text, words):
    with pytest.raises(SiteFileError, match=words):
        load({"core-site.xml": text})


@given(st.text(max_size=80), st.text(max_size=40))
def test_noise_is_a_site_or_a_site_file_error(noise, value):
    for text in (noise, f"<configuration>{noise}</configuration>"):
        try:
            load({"core-site.xml": text}).get(noise)
        except SiteFileError:
            pass
    try:
        Site({"a": value, "b": "${a}"}).get("b")
    except SiteFileError:
        pass
