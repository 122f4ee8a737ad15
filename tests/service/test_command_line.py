# SPDX-License-Identifier: MIT
"""What holds for every program and every command: help, version, exit statuses, where values come from."""

import json
import re
import subprocess

import pytest

from conftest import environment, program, run, run_fails

PROGRAMS = ["sampler", "loader", "trainer"]


def commands_of(name):
    text = run(name, "--help").stdout
    section = text.split("Commands:\n", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  ([\w-]+)", section, re.MULTILINE)


@pytest.fixture(scope="module", params=PROGRAMS)
def name(request):
    return request.param


def test_help_of_every_command_is_complete(name):
    commands = commands_of(name)
    assert commands
    for command in commands:
        done = run(name, command, "--help")
        assert done.stderr == ""
        assert done.stdout.startswith(f"Usage: tombola-{name} {command} ")
        assert "TOMBOLA_" in done.stdout and "--config FILE" in done.stdout
        assert "Exit status" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("name, command", [("sampler", "build"), ("sampler", "serve"), ("loader", "pull"), ("trainer", "train")])
def test_help_names_every_kind_of_store(name, command):
    text = run(name, command, "--help").stdout
    assert all(kind in text for kind in ("csv:PATH", "rows:PATH", "parquet:PATH", "sqlite:PATH", "postgresql://"))


def test_help_names_defaults_that_are_values():
    text = " ".join(run("sampler", "serve", "--help").stdout.split())
    assert "(from 1 to 10000000; default 1000000)" in text
    assert "(default: all) (from 1 to 2305843009213693952)" in text  # --groups: 0 only stands for it


def test_the_contracts_commands_are_there():
    assert set(commands_of("sampler")) >= {"serve", "build", "info", "healthcheck"}
    assert set(commands_of("loader")) >= {"demo", "import", "info", "pull"}
    assert set(commands_of("trainer")) >= {"train", "evaluate", "predict", "tf-config", "healthcheck"}


def test_version(name):
    first = run(name, "--version").stdout.splitlines()[0]
    assert re.fullmatch(rf"tombola-{name} \d+\.\d+\.\d+\S*", first)
    for command in commands_of(name):
        assert run(name, command, "--version").stdout.splitlines()[0] == first


def test_no_command_prints_help_to_standard_error(name):
    done = run(name, status=2)
    assert done.stdout == ""
    assert "Commands:" in done.stderr


def test_unknown_commands_and_options(name):
    run_fails(name, "serbe", says="unknown command")
    run_fails(name, "--serve", says="unknown option")
    for command in commands_of(name):
        run_fails(name, command, "--no-such-option", says=[f"tombola-{name} {command}: ", "no-such-option"])
        run_fails(name, command, "--log-level", "loud", says=["--log-level", "debug, info, warning, error"])
        run_fails(name, command, "--log-level", says="needs a value")
        run_fails(name, command, "--log-level=info", "--log_level=info", says="given twice")


def test_too_many_words(name):
    for command in commands_of(name):
        done = run(name, command, *["word"] * 9, status=2)
        assert "argument" in done.stderr


def test_bad_values_name_where_they_come_from(name, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"log_level": "loud"}))
    for command in commands_of(name):
        run_fails(name, command, env={"TOMBOLA_LOG_LEVEL": "loud"}, says="environment variable TOMBOLA_LOG_LEVEL")
        run_fails(name, command, "--config", config, says=f"in config file {config}")


@pytest.mark.parametrize("text, says", [
    ("", "ends at line 1"), ("[]", "one JSON object"), ('{"log_level": "info",}', "line 1, column"),
    ('{"nonsense": 1}', "unknown key"), ('{"log_level": null}', "must be a text"), ("\xff", "JSON value"),
])
def test_bad_config_files(name, tmp_path, text, says):
    config = tmp_path / "config.json"
    config.write_text(text)
    command = commands_of(name)[0]
    run_fails(name, command, "--config", config, says=[says, str(config)])


def test_keys_that_only_the_command_line_has(name, tmp_path):
    config = tmp_path / "config.json"
    command = commands_of(name)[0]
    for key in ("help", "version"):
        config.write_text(json.dumps({key: True}))
        run_fails(name, command, "--config", config, says=f'has the key "{key}"; --{key} is taken from the command line alone')


def test_missing_config_file(name):
    command = commands_of(name)[0]
    run_fails(name, command, "--config", "/no/such/config.json", says="/no/such/config.json")
    run_fails(name, command, "--config", "", says="--config: cannot open a file whose name is empty")


def test_results_that_reach_nobody_are_a_failure(name):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([program(name), "--help"], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=environment(), check=False)
    assert done.returncode == 1
    assert "standard output" in done.stderr


# ---- as other programs have it ----------------------------------------------------------------------


def test_short_ways_to_ask(name):
    for short, long in ((["-V"], ["--version"]), (["-h"], ["--help"]), (["help"], ["--help"])):
        assert run(name, *short).stdout == run(name, *long).stdout
    for command in commands_of(name):
        shown = run(name, command, "--help").stdout
        assert run(name, "help", command).stdout == run(name, command, "-h").stdout == shown
        assert run(name, command, "-V").stdout == run(name, "--version").stdout
    run_fails(name, "help", "nonesuch", says="unknown command")
    for way in ("-h", "-V", "help COMMAND"):
        assert way in run(name, "--help").stdout


@pytest.mark.parametrize("flag, ours", [
    ("data_dir", "--store URI"), ("max_steps", "--train-steps"), ("num_epochs", "serve --epochs"), ("model_dir", "--logdir"),
    ("save_model_secs", "--save-secs"), ("validation_size", "--splits"), ("lr", "--learning-rate"), ("hidden1", "--hidden-units"),
    ("hidden", "--hidden-units"), ("num_classes", "labels of the sampler's frame"), ("batch", "--batch-size"),
    ("num_steps", "--train-steps"), ("training_epochs", "serve --epochs"), ("dataset", "--store URI"), ("test_file", "--test-store"),
    ("ckpt_dir", "--logdir"), ("save_checkpoints_secs", "--save-secs"), ("display_step", "--print-every"), ("gpu", "--device"),
    ("init_checkpoint", "--init-from"), ("random_seed", "--seed"), ("eval_interval", "--test-every"), ("hidden_size", "--hidden-units"),
])
def test_flags_of_other_trainers_name_ours(flag, ours):
    for written in (flag, flag.replace("_", "-")):
        run_fails("trainer", "train", f"--{written}", 1, says=[f'unknown option "{written}"', ours])


def test_variables_of_such_names_name_ours(tmp_path):
    env = {"TOMBOLA_MAX_STEPS": "5", "TOMBOLA_LR": "1", "TOMBOLA_STORE": "range:5"}
    done = run("trainer", "train", "--sampler", "http://127.0.0.1:1", "--logdir", tmp_path / "run", "--patience", 0, env=env,
               status=1)
    for name, ours in (("MAX_STEPS", "--train-steps"), ("LR", "--learning-rate")):
        assert re.search(f"TOMBOLA_{name} is not read: .*{ours}", done.stderr), done.stderr


def test_misspelt_variables_are_warned_of():
    env = {"TOMBOLA_STOR": "x", "TOMBOLA_LOG_LEVL": "x", "TOMBOLA_TOKEN": "secret", "TOMBOLA_OF_ANOTHER_PROGRAM": "x"}
    done = run("loader", "info", "range:5", env=env)
    assert "TOMBOLA_LOG_LEVL is not read (did you mean TOMBOLA_LOG_LEVEL?)" in done.stderr
    assert "secret" not in done.stderr and "TOKEN" not in done.stderr and "OF_ANOTHER" not in done.stderr


def test_the_address_obeys_the_logs_format(sampler):
    server = sampler("--store", "range:5", "--log-format", "json")
    line = json.loads(server.first_line)
    assert (line["url"], line["msg"], line["level"]) == (server.url, f"listening on {server.url}", "info")
    plain = sampler("--store", "range:5")
    assert plain.first_line == f"listening on {plain.url}\n"
