"""rai_build.yml: what it says in types, or everything that is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from runner.core import (
    GIB,
    MIB,
    BuildImage,
    BuildSpec,
    Command,
    DataResource,
    GpuRequest,
    Limits,
    Place,
    Profile,
    Push,
    Severity,
)
from runner.core.errors import SpecError
from runner.spec import buildfile

HEAD = "rai: {version: 0.2, image: gcc}\n"
MAKE = "commands: {build: [make]}\n"
ITEM = f"{HEAD}commands: {{build: [{{run: a, "


def read(text) -> tuple[BuildSpec, list[str]]:
    found, warnings = buildfile.parse(text, "f.yml")
    assert all(w.severity is Severity.WARNING for w in warnings)
    return found, [str(w) for w in warnings]


def clean(text) -> BuildSpec:
    found, warnings = read(text)
    assert warnings == []
    return found


def wrong(text) -> list[str]:
    with pytest.raises(SpecError) as caught:
        buildfile.parse(text, "f.yml")
    return [str(problem) for problem in caught.value.problems]


def resources(text) -> str:
    indented = "\n".join("  " + line for line in text.splitlines())
    return f"{HEAD}resources:\n{indented}\n{MAKE}"


def texts(found: BuildSpec) -> list[str]:
    return [command.text for command in found.commands]


def test_a_whole_file_becomes_types():
    found = clean(
        """\
rai:
  version: 0.2
  image: someone/project:1
resources:
  cpu: {architecture: amd64, cores: 4}
  gpu: {count: 2, optional: true, architecture: volta}
  network: false
  limits:
    time: 1h30m
    memory: 16GiB
    pids: 1024
    output: 1G
    disk: 4 GB
    shm: 128MiB
    network: false
  dataresources:
    - mount: /data/fashion-mnist
      source:
        url: http://host/x/t10k.gz
        md5: BEF4ECAB320F06D8554EA6380940EC79
commands:
  build_image:
    image_name: someone/built:2
    dockerfile: ./docker/Dockerfile
    target: cpu
    gpu_target: gpu
    args: {BASE: debian, N: 1}
    no_cache: true
    push: {push: true}
  build:
    - make -C /src  # quickly
    - run: ./a.out
      name: run it
      needs: gpu
      continue_on_error: true
      timeout: 10m
"""
    )
    build = found.build_image
    assert found == BuildSpec(
        file="f.yml",
        version="0.2",
        image="someone/project:1",
        image_place=Place("f.yml", 3, 10),
        cpu_architecture="amd64",
        cpu_cores=4,
        gpu=GpuRequest(2, True, "volta"),
        limits=Limits(5400, 16 * GIB, 1024, GIB, 4 * GIB, 128 * MIB),
        data=(
            DataResource(
                "/data/fashion-mnist",
                "t10k.gz",
                "http://host/x/t10k.gz",
                "bef4ecab320f06d8554ea6380940ec79",
                found.data[0].place,
            ),
        ),
        build_image=BuildImage(
            "someone/built:2",
            "docker/Dockerfile",
            "cpu",
            "gpu",
            (("BASE", "debian"), ("N", "1")),
            True,
            Push("someone/built:2"),
            build.place,
        ),
        commands=(
            Command("make -C /src", place=found.commands[0].place),
            Command("./a.out", "run it", True, True, 600, found.commands[1].place),
        ),
    )
    places = [str(command.place) for command in found.commands]
    assert places == ["f.yml:31:7", "f.yml:32:12"]
    assert str(build.place) == "f.yml:22:3"


def test_what_is_left_out_has_its_defaults():
    found = clean(MAKE)

    assert found.commands[0].text == "make"
    bare = replace(found, commands=())
    assert bare == BuildSpec("f.yml")


@pytest.mark.parametrize(
    ("text", "commands_"),
    [
        ("[make, ./a]", ["make", "./a"]),
        ("\n  - make\n  - ./a\n", ["make", "./a"]),
        ("\n    - >-\n      a b\n      c\n    - >\n      d\n", ["a b c", "d"]),
        ("\n    - |\n      a\n      b\n", ["a\nb"]),
        ("\n    - a b\n      c d\n", ["a b c d"]),
        ("\n    - '\"it''s\" x' # y\n", ['"it\'s" x']),
        ('\n    - "a\\tb \\"c\\""\n', ['a\tb "c"']),
        ("\n    # - x\n    - make\n  # - y\n#- z\n", ["make"]),
        ("\n    - true\n    - 12\n    - 0.10\n", ["true", "12", "0.10"]),
        ("\n    - echo é ✱\n", ["echo é ✱"]),
    ],
)
def test_commands_are_the_texts_of_the_list(text, commands_):
    text = "".join("  " + line + "\n" for line in f"build: {text}".split("\n"))

    assert texts(clean(f"commands:\n{text}")) == commands_


@pytest.mark.parametrize("item", ["", "~", "null", "''", "'  '"])
def test_an_empty_item_is_left_out_with_a_warning(item):
    found, warnings = read(f"commands:\n  build:\n    - make\n    - {item}\n    - x\n")

    assert texts(found) == ["make", "x"]
    assert len(warnings) == 1
    assert "commands.build[2] is empty; it is ignored" in warnings[0]


def test_a_single_text_is_one_command_with_a_warning():
    found, warnings = read("commands:\n  build: make -j8\n")

    assert texts(found) == ["make -j8"]
    assert "f.yml:2:10: warning: commands.build is not a list" in warnings[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "f.yml:1:1: no commands"),
        ("# nothing\n", "f.yml:1:1: no commands"),
        ("~\n", "no commands"),
        (HEAD, "no commands"),
        ("commands: {build: }\n", "no commands"),
        ("commands: {build: []}\n", "no commands"),
        ("commands: {build: ['']}\n", "no commands"),
        ("commands: {build_image: }\n", "no commands"),
        ("comands: {build: [make]}\n", "no commands"),
        ("build: [make]\n", "no commands"),
    ],
)
def test_without_any_command_there_is_nothing_to_run(text, said):
    assert any(said in problem and "warning" not in problem for problem in wrong(text))


def test_an_image_to_build_is_enough():
    found = clean("commands: {build_image: {}}\n")

    assert found.build_image.dockerfile == "Dockerfile"


def test_a_run_with_a_gpu_is_built_for_its_own_target():
    found = clean(
        "resources: {gpu: {count: 1}}\n"
        "commands: {build_image: {target: small, gpu_target: large}}\n"
    )

    targets = [found.built_for(gpu).build_image.target for gpu in (False, True)]
    assert targets == ["small", "large"]


def test_a_target_for_a_gpu_that_nobody_asks_for_is_without_effect():
    _, (warning,) = read("commands: {build_image: {gpu_target: large}}\n")

    assert "1:38: warning: commands.build_image.gpu_target" in warning
    assert "run with `--gpus 1`" in warning


GPUS = [
    ("gpu: {count: 1}", GpuRequest(1), ""),
    ("gpu: {count: 2, architecture: pascal}", GpuRequest(2, False, "pascal"), ""),
    ("gpu: {}", GpuRequest(1), "resources.gpu has no count; using 1"),
    ("gpu: {architecture: volta}", GpuRequest(1, False, "volta"), "has no count"),
    ("gpu: {count: }", GpuRequest(1), "resources.gpu.count is empty"),
    ("gpu: {count: -2}", GpuRequest(1), "resources.gpu.count is -2; using 1"),
    ("gpu: {count: 0}", None, "count is 0; the run gets no GPU"),
    ("gpu:", None, "resources.gpu is empty; no GPU is asked for"),
    ("gpu: {count: 1, memory: 8G}", GpuRequest(1, memory="8G"), "has no effect"),
    ("gpus: 1", GpuRequest(1), "resources.gpus is the spelling of version 0.1"),
    ("gpus: 0", None, "resources.gpus is the spelling of version 0.1"),
    ("gpus: 3\ngpu: {count: 1}", GpuRequest(1), "resources.gpu takes precedence"),
]


@pytest.mark.parametrize(("text", "gpu", "said"), GPUS)
def test_gpus_are_asked_for(text, gpu, said):
    found, warnings = read(resources(text))

    assert found.gpu == gpu
    assert len(warnings) == bool(said)
    assert said in "".join(warnings)


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("network: true", True),
        ("network: false", False),
        ("limits: {network: true}", True),
        ("network: true\nlimits: {network: true}", True),
        ("cache: false", False),
    ],
)
def test_the_network_is_asked_for_in_either_place(text, network):
    assert clean(resources(text)).limits.network is network


def test_where_the_two_spellings_differ_the_one_under_limits_counts():
    found, warnings = read(resources("network: true\nlimits: {network: false}"))

    assert not found.limits.network
    assert "the network is off" in warnings[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cpu: architecture:amd64", 'resources.cpu is "architecture:amd64"'),
        ("cache: true", "resources.cache has no effect"),
        ("cache: 1GB", "resources.cache has no effect"),
        ("limits: {datasize: 1}", "`disk` what may be written to /build"),
        ("cpu:", "resources.cpu is empty"),
        ("gqu: {count: 1}", "unknown key `gqu` in resources; did you mean `gpu`?"),
        ("memory: 8G", "belongs under `resources.gpu` or under `resources.limits`"),
    ],
)
def test_what_is_odd_about_resources_is_a_warning(text, said):
    _, (warning,) = read(resources(text))

    assert said in warning


def test_a_space_that_is_missing_after_a_colon_is_a_warning_in_any_section():
    found, (warning,) = read(resources("gpu:\n  count:2\n  architecture:volta"))

    assert found.gpu == GpuRequest(2, architecture="volta")
    assert 'resources.gpu is "count:2 architecture:volta"' in warning
    assert "a space after each" in warning


@pytest.mark.parametrize("text", ["count", "cuont:1", "count:1 count:2", "'count:1'"])
def test_other_text_in_the_place_of_a_section_is_an_error(text):
    (problem,) = wrong(resources(f"gpu:\n  {text}"))

    assert "resources.gpu is" in problem


def data(mount, url="https://host/d/x.gz", more=""):
    return resources(
        "dataresources:\n"
        f"  - mount: {mount}\n    source: {{url: '{url}', md5: {'0' * 32}{more}}}"
    )


@pytest.mark.parametrize(
    ("mount", "url", "directory", "name"),
    [
        ("/data/f", "https://host/d/x.gz", "/data/f", "x.gz"),
        ("/data", "https://host/d/x.gz", "/data", "x.gz"),
        ("/data/f/x.gz", "https://host/d/x.gz", "/data/f", "x.gz"),
        ("/data/x.gz", "https://host/d/x.gz", "/data", "x.gz"),
        ("/data/x.gz/x.gz", "https://host/d/x.gz", "/data/x.gz", "x.gz"),
        ("//data//f/./g", "https://host/d/x.gz", "/data/f/g", "x.gz"),
        ("/data", "http://host:80/a%20b.gz?v=/1#z", "/data", "a b.gz"),
        ("/data", "http://host/%C3%A9", "/data", "é"),
    ],
)
def test_a_data_file_appears_in_its_mount_under_its_own_name(
    mount, url, directory, name
):
    (resource,) = clean(data(mount, url)).data

    assert (resource.directory, resource.file_name) == (directory, name)


@pytest.mark.parametrize(
    "mount",
    ["data/f", "/src/f", "/", "/data/../etc", "/database", "/data/f/..", "[x]"],
)
def test_a_mount_outside_data_is_an_error(mount):
    problems = wrong(data(mount))

    assert "resources.dataresources[1].mount is" in problems[0]
    assert "f.yml:4:14" in problems[0]


@pytest.mark.parametrize(
    "url",
    [
        *(
            "ftp://host/x",
            "file:///etc/passwd",
            "x.gz",
            "https://host",
            "https://host/",
        ),
        *("https://host/d/", "https://host/..", "https://host/%2e%2e", "http:///x"),
        *("https://host/a%2Fb", "https://host/a b", "https://host/a%00"),
        f"https://host/{'n' * 256}",
    ],
)
def test_an_address_that_names_no_file_is_an_error(url):
    (problem,) = wrong(data("/data", url))

    assert "source.url is" in problem
    assert "e.g. `url: https://host/path/file.gz`" in problem


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ("[{mount: /data}]", "[1] has no `source`"),
        ("[{source: {url: 'http://h/x', md5: 0}}]", "[1] has no `mount`"),
        ("[{mount: /data, source: {}}]", "[1].source has no `url`"),
        ("[{mount: /data, source: 'http://h/x'}]", "[1].source is"),
        ("[x]", 'resources.dataresources[1] is "x"'),
        ("{mount: /data}", "resources.dataresources is a mapping; expected a list"),
        (
            "[{mount: /data, source: {url: 'http://h/x', md5: abc}}]",
            'md5 is "abc"; expected 32 hexadecimal digits',
        ),
    ],
)
def test_an_incomplete_data_file_is_an_error(items, said):
    assert any(said in p for p in wrong(resources(f"dataresources: {items}")))


@pytest.mark.parametrize(
    ("first", "second"),
    [("/data", "/data"), ("/data", "/data/x"), ("/data/x/y", "/data")],
)
def test_two_data_files_cannot_be_in_one_place(first, second):
    items = (f"{{mount: {m}, source: {{url: 'http://h/x'}}}}" for m in (first, second))
    problems = wrong(resources(f"dataresources: [{', '.join(items)}]"))

    assert any("in the place of" in problem for problem in problems)


def test_too_many_data_files_are_refused_in_time():
    items = (
        f"{{mount: /data, source: {{url: http://h/{n}, md5: {n:032}}}}}"
        for n in range(1000)
    )
    (problem,) = wrong(resources(f"dataresources: [{', '.join(items)}]"))
    assert "more than 256 data files" in problem


def test_a_data_file_that_cannot_be_checked_or_extracted_is_a_warning():
    text = data("/data", more=", extract: true").replace(f", md5: {'0' * 32}", "")
    _, warnings = read(text)

    assert len(warnings) == 2
    assert "extract the file in a command" in warnings[0] + warnings[1]
    assert "has no md5" in warnings[0] + warnings[1]


WRONG = [
    ("x\n", '1:1: the file is "x"; expected a mapping'),
    ("- make\n", "1:1: the file is a list"),
    ("rai: gcc\n" + MAKE, '1:6: rai is "gcc"'),
    ("commands: [make]\n", "1:11: commands is a list; expected a mapping"),
    ("commands: {build: {run: x}}\n", "1:19: commands.build is a mapping"),
    ("commands: {build: [[make]]}\n", "1:20: commands.build[1] is a list"),
    (
        'commands:\n  build:\n    - echo "a: b"\n',
        '3:7: commands.build[1] is a mapping without `run`; the `:` after `echo "a`',
    ),
    ("commands: {build: [{name: x}]}\n", "add it, e.g. `{run: make, timeout: 10m}`"),
    ("commands: {build: [{run: [x]}]}\n", "1:26: commands.build[1].run is a list"),
    ("commands: {build: [{run: x, needs: fpga}]}\n", 'needs is "fpga"; expected gpu'),
    ("commands: {build: [{run: x, timeout: 0}]}\n", 'timeout is "0"; expected a time'),
    ("commands: {build: ['echo \"']}\n", '1:20: a `"` is not closed'),
    (resources("gpu: {count: two}"), '3:16: resources.gpu.count is "two"; expected a'),
    (resources("limits: {memory: 8}"), 'memory is "8"; expected a size of at least'),
    (resources("limits: {pids: 0}"), 'pids is "0"; expected a whole number from 8'),
    (resources("network: maybe"), 'resources.network is "maybe"; expected true or'),
    ("commands: {build_image: {dockerfile: ../x}}\n", "expected a path inside"),
    ("commands: {build_image: {dockerfile: /x}}\n", "expected a path inside"),
    ("commands: {build_image: {args: [x]}}\n", "args[1] is not a build argument"),
    ("commands: {build_image: {args: {x: []}}}\n", "args.x is not text"),
    ("commands: {build_image: {push: {push: true}}}\n", "push has no image_name"),
    ("commands: {build_image: {image_name: rai/x}}\n", "reserved for rai"),
    ("commands: {build_image: {image_name: A/x}}\n", "expected lower-case letters"),
    (f"{MAKE}{MAKE}", "2:1: duplicate key `commands`"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_wrong_is_an_error_with_place_and_remedy(text, said):
    (problem,) = wrong(text)

    assert problem.startswith("f.yml:")
    assert said in problem


ODD = [
    (f"{HEAD}{MAKE}x: 1\n", "3:1: warning: unknown key `x`"),
    (f"network: true\n{MAKE}", "`network`; it belongs under `resources`"),
    (f"rai: {{imgae: gcc}}\n{MAKE}", "in rai; did you mean `image`?"),
    (f"rai: {{image: }}\n{MAKE}", "rai.image is empty"),
    (f"rai: {{image: Gcc}}\n{MAKE}", "not a valid image name"),
    ("commands: {build: [cd x]}\n", "what `cd` changes lasts only"),
    ("commands: {build: ['echo “x”']}\n", "not a quote"),
    ("commands: {build: [{run: x, needs: gpu}]}\n", "does not ask for one"),
    (
        "commands: {build_image: {push: {registry: x}}}\n",
        "registry has no effect; write the registry in image_name",
    ),
]


@pytest.mark.parametrize(("text", "said"), ODD)
def test_what_is_odd_is_a_warning_with_its_place(text, said):
    _, (warning,) = read(text)

    assert warning.startswith("f.yml:")
    assert said in warning


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{ITEM}expct: {{output: x}}}}]}}\n", "did you mean `expect`?"),
        (f"{ITEM}need: gpu}}]}}\n", "did you mean `needs`?"),
        (f"{HEAD}{MAKE}resources: {{limit: {{time: 1m}}}}\n", "did you mean `limits`?"),
        (f"{HEAD}{MAKE}Env: {{A: b}}\n", "did you mean `env`?"),
    ],
)
def test_a_key_that_a_letter_disarms_is_an_error(text, said):
    (problem,) = wrong(text)
    assert said in problem and "warning" not in problem


@pytest.mark.parametrize("key", ["expected", "need_gpu", "time", "environment"])
def test_other_unknown_keys_are_warnings(key):
    _, (warning,) = read(f"{ITEM}{key}: x}}]}}\n")
    assert f"unknown key `{key}`" in warning


def test_all_problems_come_at_once_in_the_order_of_the_file():
    problems = wrong(
        "rai: {image: [x]}\n"
        "resources: {gpu: {count: two}, limits: {tiem: 1}}\n"
        "commands: {biuld: [make]}\n"
    )
    starts = [problem.split(";")[0] for problem in problems]
    assert starts == [
        "f.yml:1:14: rai.image is a list",
        'f.yml:2:26: resources.gpu.count is "two"',
        "f.yml:2:41: warning: unknown key `tiem` in resources.limits",
        "f.yml:3:11: no commands",
        "f.yml:3:12: warning: unknown key `biuld` in commands",
    ]


@pytest.mark.parametrize(
    "version", ["0.1", "0.2", "0.2.20", "7", "next", "1.0-b", "''"]
)
def test_any_version_is_accepted(version):
    found, _ = read(f"rai: {{version: {version}}}\n{MAKE}")

    assert found.version == version.strip("'")


def test_keys_of_build_image_one_level_too_high_say_where_they_belong():
    found, warnings = read(
        "commands:\n  build_image:\n  image_name: x\n  dockerfile: y\n  build: [make]\n"
    )
    assert found.build_image is None
    assert "no image is built; indent its keys below it" in "".join(warnings)
    assert "`image_name` in commands; it belongs under" in "".join(warnings)
    assert "it belongs under `commands.build_image`" in warnings[-1]


def test_arguments_may_be_a_list_as_well():
    found = clean("commands: {build_image: {args: [A=1, B=x=y]}}\n")

    assert found.build_image.args == (("A", "1"), ("B", "x=y"))


SECRET = """\
commands:
  build_image:
    image_name: é/x
    push:
      push: false
      credentials:
        username: "me@host"  # é
        password: hunter2
  build: [make]
"""


def test_credentials_are_never_read_shown_or_kept():
    problems = wrong(SECRET.replace("push: false", "push: [x]"))
    problems += wrong(SECRET.replace("username:", "- username:"))

    assert "hunter2" not in "".join(problems)
    found, warnings = read(SECRET.replace("é/x", "e/x"))
    assert "hunter2" not in repr(found) + "".join(warnings)
    assert "credentials is ignored" in warnings[0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_text_to_keep_has_its_credentials_masked(end):
    kept = buildfile.redacted(SECRET.replace("\n", end))

    masked = SECRET.replace('"me@host"', '"***"').replace("hunter2", '"***"')
    assert kept == masked.replace("\n", end)


def test_a_masked_text_can_be_read_again():
    text = SECRET.replace("é/x", "e/x").replace(": hunter2", ": |\n          hunter2")

    kept = buildfile.redacted(text)

    assert "hunter2" not in kept
    assert read(kept)[0].build_image == read(text)[0].build_image
    assert buildfile.masked(kept) == ()


def test_a_masked_build_argument_is_named_and_filled_in_again():
    text = SECRET.replace("é/x", "e/x").replace(
        "    push:\n", "    args: {credentials: 'a \"b\"', OTHER: c}\n    push:\n"
    )

    kept = buildfile.redacted(text)
    again = buildfile.filled(kept, {"credentials": 'a "b"'})

    assert buildfile.masked(text) == ()
    assert buildfile.masked(kept) == ("credentials",)
    assert buildfile.masked(again) == ()
    assert read(again)[0] == read(text)[0]
    assert buildfile.redacted(again) == kept


def test_a_text_without_credentials_is_kept_as_it_is():
    assert buildfile.redacted(HEAD + MAKE) == HEAD + MAKE


def test_bytes_that_are_no_text_are_an_error_with_their_place():
    with pytest.raises(SpecError) as caught:
        buildfile.decode(b"commands:\n  - echo \x93hi\x94\n", "f.yml")

    assert str(caught.value).startswith("f.yml:2:10: the byte 0x93 is not UTF-8")
    assert buildfile.decode("é".encode("utf-8-sig"), "f.yml") == "é"


def test_a_named_image_runs_compatibly_and_a_built_one_strictly():
    assert clean(HEAD + MAKE).profile is Profile.COMPATIBLE
    assert clean(f"{HEAD}commands: {{build_image: {{}}}}\n").profile is Profile.STRICT
    assert clean(MAKE).profile is Profile.STRICT


DOCUMENT = (Path(__file__).parents[2] / "docs" / "rai_build.md").read_text()


KEYS = [
    f"{path}.{key}" if path else key
    for path, keys in buildfile.KEYS.items()
    for key in keys
]


def test_the_documentation_has_every_key_and_no_other():
    section = DOCUMENT.partition("## Every key")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)
    ignored = section.partition("These have no effect: ")[2].partition("\n\n")[0]
    within = "commands.build_image.push.credentials"
    told = [
        f"{within}.{name}" if name in ("username", "password") else name
        for name in re.findall("`([a-z_.[\\]]+)`", ignored)
    ]

    assert len(rows) == len(set(rows))
    assert {*rows, *told} <= set(KEYS)
    mappings = {path.removesuffix("[]") for path in buildfile.KEYS}
    assert set(KEYS) - mappings <= {*rows, *told}


@pytest.mark.parametrize("example", re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.S))
def test_every_example_of_the_documentation_is_right(example):
    assert clean(example).commands
