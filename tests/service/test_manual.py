# SPDX-License-Identifier: MIT
"""deploy/manual: man pages and completions have what --help has, and the shells themselves complete it."""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, environment, program

pytestmark = pytest.mark.plain

NAMES = ("sampler", "loader", "trainer")
GENERATE = ROOT / "deploy" / "manual" / "generate"
MANUAL = BUILD / "manual"
SCRIPT = ROOT / "deploy" / "tombola"


def output(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S, **more)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def tool(name):
    path = shutil.which(name)
    assert path, f"{name} is not there: deploy/install test"
    return path


def called(name):
    return name if name == "tombola" else f"tombola-{name}"


def helped(name, *command):
    return output(program(name), *command, "--help", env=environment())


def commands(name):
    listed = helped(name).split("\nCommands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)


def options(name, command):
    """{option: its text, without spaces} as --help shows them."""
    found = {}
    for block in re.split(r"^  (?=--)", helped(name, command).split("\nWhere values")[0], flags=re.MULTILINE)[1:]:
        block = block.split("\n\n")[0]
        found[block.split()[0]] = squeezed(block)
    return found


def squeezed(text):
    return re.sub(r"\s", "", text)


@pytest.fixture(scope="module", params=NAMES)
def page(request):
    """(name of the program, its man page as it is read)"""
    path = MANUAL / "man" / f"tombola-{request.param}.1"
    roff = [tool("groff"), "-man", "-Tutf8", "-ww", "-P-cbou", "-rHY=0", "-rLL=90n", path]
    done = subprocess.run(roff, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return request.param, done.stdout.replace("‐", "-")


def test_a_page_has_every_option_with_its_text(page):
    name, text = page
    own_part, common_part = text.split("\nCOMMANDS\n")[1].split("\nOPTIONS OF EVERY COMMAND\n")
    sections = re.split(r"^   (?=\S)", own_part, flags=re.MULTILINE)[1:]
    common = squeezed(common_part)
    assert [section.split("\n")[0] for section in sections] == commands(name)
    for command, section in zip(commands(name), sections):
        own = squeezed(section)
        for option, words in options(name, command).items():
            assert (words in own) != (words in common), f"{name} {command} {option}: {words}"


def test_a_page_has_examples_exit_status_and_neighbours(page):
    name, text = page
    for command in commands(name):
        details = helped(name, command).split("ended by signal N\n")[1]
        assert squeezed(details) in squeezed(text), command
    assert squeezed("128 + N ended by signal N") in squeezed(text) and "TOMBOLA_" in text
    see = text.split("\nSEE ALSO\n")[1]
    assert {other for other in NAMES if f"tombola-{other}(1)" in see} == set(NAMES) - {name} and " tombola(1)" in see


@pytest.mark.parametrize("name", ["tombola", *(f"tombola-{name}" for name in NAMES)])
def test_mandoc_finds_nothing_to_warn_of(name):
    output(tool("mandoc"), "-T", "lint", "-W", "warning", MANUAL / "man" / f"{name}.1")


def test_the_page_of_the_script_is_its_help():
    roff = [tool("groff"), "-man", "-Tutf8", "-ww", "-P-cbou", "-rHY=0", "-rLL=90n", MANUAL / "man" / "tombola.1"]
    shown = output(*roff).replace("‐", "-")
    assert re.search(r"^ {7}--workers N\n {14}worker processes", shown, re.M), "an option's text is filled, as in the others' pages"
    text = squeezed(shown)
    said = output(SCRIPT, "--help")
    assert squeezed(said.split("\n\n", 1)[1]) in text and squeezed(said.split("\n")[0].removeprefix("usage:")) in text
    assert "tombola-Fromatabletoatrainedmodel" in text and "tombola-sampler(1)" in text


def test_a_page_is_a_function_of_program_and_date():
    made = [output(GENERATE, "man", program("sampler"), env=environment({"SOURCE_DATE_EPOCH": "0", **more}))
            for more in ({}, {"TOMBOLA_LISTEN": "0.0.0.0:99", "LC_ALL": "de_DE.UTF-8"})]
    assert made[0] == made[1] and " 1 1970-01-01 " in made[0]


@pytest.mark.parametrize("text, message", [
    ("tombola-x 1\\n", "no command"),
    ("Usage: tombola-x COMMAND\\n\\nnothing\\n", "where [OPTION]... was expected"),
    ("Usage: tombola-x COMMAND [OPTION]...\\n\\nnothing\\n\\nCommands:\\n  go  it goes\\n\\n",
     "no summary, options or exit status"),
])
def test_help_that_cannot_be_read_gives_no_page(tmp_path, text, message):
    (tmp_path / "tombola-x").write_text(f"#!/bin/sh\n[ $# = 2 ] || printf '{text}'\n")
    (tmp_path / "tombola-x").chmod(0o755)
    done = subprocess.run([GENERATE, "man", tmp_path / "tombola-x"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("read.awk: ") and message in done.stderr


@pytest.mark.parametrize("words", [[], ["man"], ["html", "sampler"], ["man", "/nosuch"]])
def test_bad_usage_says_what_was_expected(words):
    done = subprocess.run([GENERATE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--help says how" in done.stderr


# ---- what each shell offers -----------------------------------------------------------------------

BASH = """
source "$1"; shift
compopt() { :; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_${1//-/_}
((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
"""


def by_bash(name, *words, folder=None):
    given = ["bash", "--norc", "-c", BASH, "bash", MANUAL / "bash" / called(name), called(name), *words]
    return set(output(*given, cwd=folder).split())


def by_fish(name, *words, folder=None):
    line = " ".join([called(name), *words])
    script = f"source {MANUAL}/fish/{called(name)}.fish; complete -C '{line}'"
    lines = output(tool("fish"), "--no-config", "-c", script, cwd=folder).splitlines()
    return {line.split("\t")[0] for line in lines}


class Terminal:
    """A shell at a terminal, and a person who types."""

    def __init__(self, words, folder):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder)})
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 100, 200, 0, 0))

    def type(self, text, *expected):
        """What the shell prints from now on, until all that is expected stands there."""
        os.write(self.terminal, text.encode())
        seen, deadline = "", time.monotonic() + PATIENCE_S
        while not all(re.search(rf"(?<![\w-]){re.escape(word)}", seen) for word in expected):
            ready = select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, f"typed {text!r}, expected {expected}, saw {seen!r}"
            seen += os.read(self.terminal, 65536).decode(errors="replace")
        return seen

    def close(self):
        os.close(self.terminal)
        os.waitpid(self.child, 0)


STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'; bind 'set bell-style none'; "
             "for f in {manual}/bash/*; do source $f; done"),
    "zsh": (["zsh", "-f", "-i"], "fpath=({manual}/zsh $fpath); autoload -Uz compinit; compinit -D -u"),
}


@pytest.fixture(params=STARTS)
def shell(request, tmp_path):
    words, start = STARTS[request.param]
    tool(words[0])
    terminal = Terminal(words, tmp_path)
    terminal.type("echo be''gun\n", "begun")
    terminal.type(start.format(manual=MANUAL) + "; echo lo''aded\n", "loaded")
    (tmp_path / "some.frame").touch()
    (tmp_path / "some-folder").mkdir()
    yield terminal
    terminal.close()


CLEAR = "\x15"  # Ctrl-U: the line is thrown away


def designs():
    done = subprocess.run([program("sampler"), "serve", "--store", "range:9", "--design", "nosuch"],
                          capture_output=True, text=True, check=False, env=environment())
    return set(re.findall(r"[a-z]+", done.stderr.split("is not one of")[1]))


def test_a_person_at_a_terminal(shell):
    shell.type("tombola-sampler hea\t", "healthcheck")
    shell.type(CLEAR + "tombola-loader pull --bad\t", "--bad-rows")
    shell.type(CLEAR + "tombola r\t", "run")
    shell.type(CLEAR + "tombola run --fr\t", "--fresh")
    shell.type(CLEAR + "tombola-sampler serve --design \t\t", *designs())
    shell.type(CLEAR + "tombola-sampler serve --design=bern\t", "bernoulli")
    shell.type(CLEAR + "tombola-trainer train --sync --optimizer adag\t", "adagrad")
    shell.type(CLEAR + "tombola-sampler info some.f\t", "some.frame")
    shell.type(CLEAR + "tombola-trainer train --logdir some-f\t", "some-folder")


@pytest.mark.parametrize("name", NAMES)
def test_zsh_has_every_option_of_every_command(name):
    text = (MANUAL / "zsh" / f"_tombola-{name}").read_text()
    common = text.split("common=(")[1].split("\n    )")[0]
    for command in commands(name):
        own = text.split(f"\n        {command})\n")[1].split("\n            ;;")[0]
        for option in options(name, command):
            assert re.search(rf"'\*?{option}[=\[]", common + own), f"{command} {option}"


@pytest.mark.parametrize("offered", [by_bash, by_fish])
@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_is_offered(offered, name):
    assert set(commands(name)) < offered(name, "")
    assert offered(name, "help", "") >= set(commands(name))
    for command in commands(name):
        assert {word for word in offered(name, command, "--") if word.startswith("--")} == set(options(name, command))


@pytest.mark.parametrize("offered", [by_bash, by_fish])
def test_the_command_of_the_script_is_offered_with_its_options(offered, tmp_path):
    (tmp_path / "file.csv").touch()
    (tmp_path / "folder").mkdir()
    options_of_run = set(re.findall(r"^  (--\w+)", output(SCRIPT, "--help"), re.MULTILINE))
    assert "run" in offered("tombola", "") and offered("tombola", "help", "") == {"run"}
    assert len(options_of_run) > 7 and offered("tombola", "run", "--") == options_of_run
    assert offered("tombola", "run", "--steps", "") == set()
    assert {word.rstrip("/") for word in offered("tombola", "run", "--work", "f", folder=tmp_path)} == {"folder"}
    for words in (["f"], ["--test", "f"]):
        assert "file.csv" in offered("tombola", "run", *words, folder=tmp_path)


def test_zsh_has_every_option_of_the_script():
    text = (MANUAL / "zsh/_tombola").read_text()
    for option in re.findall(r"^  (--\w+)", output(SCRIPT, "--help"), re.MULTILINE):
        assert f"            '{option}=[" in text or f"            '{option}[" in text, option


@pytest.mark.parametrize("offered", [by_bash, by_fish])
def test_every_choice_is_offered(offered):
    for name in NAMES:
        for command in commands(name):
            shown = helped(name, command).replace("   ", "\n")
            choices = re.findall(r"^  (--[\w-]+) (\w+(?:\|\w+)+)$", shown, re.MULTILINE)
            assert choices
            for option, words in choices:
                assert offered(name, command, option, "") == set(words.split("|")), option


@pytest.mark.parametrize("offered", [by_bash, by_fish])
def test_words_that_a_text_lists_are_offered(offered):
    assert offered("sampler", "serve", "--design", "") == designs()
    assert offered("sampler", "serve", "--split", "") == {"train", "validation", "test"}
    assert offered("trainer", "train", "--job-name", "") == {"ps", "worker", "evaluator"}
    assert offered("trainer", "train", "--device", "") == {"cpu", "cuda", "auto"}
    assert offered("sampler", "serve", "--seed", "") == set()


@pytest.mark.parametrize("offered", [by_bash, by_fish])
def test_files_and_folders_are_offered(offered, tmp_path):
    (tmp_path / "file.csv").touch()
    (tmp_path / "folder").mkdir()
    assert {word.rstrip("/") for word in offered("sampler", "serve", "--state", "f", folder=tmp_path)} == {"folder"}
    assert "file.csv" in offered("sampler", "build", "--store", "f", folder=tmp_path)
    assert "file.csv" in offered("sampler", "info", "f", folder=tmp_path)
    assert offered("sampler", "serve", "f", folder=tmp_path) == set()


def test_bash_completes_behind_equals_signs_and_colons(tmp_path):
    (tmp_path / "file.csv").touch()
    assert by_bash("sampler", "serve", "--design", "=", "s") == {"srs", "sequential", "systematic"}
    assert by_bash("sampler", "serve", "--tail", "=") == {"keep", "drop", "span"}
    assert by_bash("sampler", "serve", "--store", "csv", ":", "f", folder=tmp_path) == {"file.csv"}
    assert by_bash("sampler", "serve", "--store", "=", "csv", ":", folder=tmp_path) == {"file.csv"}
    assert by_bash("sampler", "serve", "--log_level", "") == {"debug", "info", "warning", "error"}
