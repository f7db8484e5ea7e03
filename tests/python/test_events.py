"""Tests the events of --event_fd: their fields, readers that are gone or slow, and replies that are wrong."""
import json
import os
import socket
import subprocess
import time

import plimsoll_train as pl
from conftest import ROOT

DATA = os.path.join(ROOT, "tests", "parity", "data", "single.tsv")
VALIDATION = os.path.join(ROOT, "tests", "parity", "data", "single_validation.tsv")


def start(descriptor, model, output_dir, *more, command="train"):
    data = ["--train_file", DATA, "--max_steps", "6", "--logging_steps", "2"] if command == "train" else ["--validation_file", VALIDATION]
    words = [pl.program_path(), command, "--model_name_or_path", model, *data, "--output_dir", str(output_dir), "--use_cpu", "--num_threads",
             "1", "--max_seq_length", "32", "--event_fd", str(descriptor), *more]
    return subprocess.Popen(words, pass_fds=(descriptor,), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def reply_to(event, reply):
    """Returns the line that replies to an event, with the id of the event. `reply` is a text for all events, or a dict of reply members by
    kind of event."""
    if isinstance(reply, str):
        return reply.replace("ID", str(event["id"])).encode()
    return json.dumps({"id": event["id"], **reply.get(event["event"], {})}).encode()


def events_of(model, output_dir, *more, command="train", replies=None):
    """Runs the program and returns its events, its exit code and its output. `replies` determines the replies to events, as in reply_to().
    """
    ours, theirs = socket.socketpair()
    process = start(theirs.fileno(), model, output_dir, *more, command=command)
    theirs.close()
    events = []
    with ours, ours.makefile("r", encoding="utf-8") as file:
        for line in file:
            events.append(json.loads(line))
            if replies is not None and "id" in events[-1]:
                ours.sendall(reply_to(events[-1], replies) + b"\n")
    output = process.communicate()[0].decode()
    return events, process.returncode, output


def test_the_fields_of_every_event(tmp_path, model):
    events, exit_code, _ = events_of(model, tmp_path / "out", "--validation_file", VALIDATION, "--eval_strategy", "steps", "--eval_steps",
                                     "3", "--save_steps", "4", "--save_logits")
    assert exit_code == 0
    fields = {event["event"]: sorted(set(event) - {"event"}) for event in events}
    assert fields["start"] == ["command", "output_dir"]
    assert fields["plan"] == ["fits", "plan", "refusal"]
    assert fields["begin"] == ["max_steps"]
    assert fields["step"] == ["epoch", "grad_norm", "learning_rate", "loss", "max_steps", "num_sequences", "num_tokens", "step", "step_ms"]
    assert fields["log"] == ["epoch", "step", "values"]
    assert fields["metrics"] == ["labels", "logits"]
    assert fields["evaluate"] == ["epoch", "metrics", "step"]
    assert fields["save"] == fields["model"] == ["path"]
    assert fields["results"] == ["metrics", "split"]
    assert fields["end"] == ["exit_code", "message"]
    order = [event["event"] for event in events if event["event"] not in ("step", "progress", "note", "warning")]
    assert order[:3] == ["start", "plan", "begin"] and order[-1] == "end"
    assert [event["step"] for event in events if event["event"] == "log"][:3] == [2, 3, 4]
    assert {event["split"] for event in events if event["event"] == "results"} == {"train", "eval"}
    assert events[-1] == {"event": "end", "exit_code": 0, "message": ""}


def test_an_error_is_the_last_event(tmp_path, model):
    events, exit_code, output = events_of(model, tmp_path / "out", "--memory_limit", "1MiB")
    assert exit_code == events[-1]["exit_code"] == 3
    assert events[-1]["message"].startswith("will not fit") and events[-1]["message"].splitlines()[0] in output
    assert not next(event for event in events if event["event"] == "plan")["fits"]


def test_a_closed_pipe_does_not_end_the_run(tmp_path, model):
    reader, writer = os.pipe()
    os.close(reader)
    process = start(writer, model, tmp_path / "out")
    os.close(writer)
    output = process.communicate()[0].decode()
    assert process.returncode == 0 and "--event_fd: its reader has closed it; the run continues without events" in output
    ours, theirs = socket.socketpair()
    process = start(theirs.fileno(), model, tmp_path / "two", "--event_replies", "steps")
    theirs.close()
    ours.recv(100)
    ours.close()
    assert process.wait() == 0


def test_a_reader_that_does_not_read_does_not_stall_the_run(tmp_path, model):
    reader, writer = os.pipe()
    start_time = time.monotonic()
    process = start(writer, model, tmp_path / "out", "--max_steps", "400")
    os.close(writer)
    output = process.communicate()[0].decode()
    # The run must not wait for the reader while it trains. At its end it waits at most two seconds for unread events.
    assert process.returncode == 0 and time.monotonic() - start_time < 20, output
    os.close(reader)


def test_replies_add_metrics_and_requests(tmp_path, model):
    events, exit_code, output = events_of(model, tmp_path / "out", "--validation_file", VALIDATION, "--eval_strategy", "steps",
                                          "--eval_steps", "2", "--save_logits", "--event_replies", "evaluations",
                                          replies={"metrics": {"metrics": {"own": 0.25}}, "evaluate": {"control": ["stop", "save"]}})
    assert exit_code == 0, output
    evaluated = [event for event in events if event["event"] == "evaluate"]
    assert [event["step"] for event in evaluated] == [2] and evaluated[0]["metrics"]["eval_own"] == 0.25
    assert any(event["event"] == "save" and event["path"].endswith("checkpoint-2") for event in events)


def test_wrong_replies_and_descriptors_are_refused(tmp_path, model):
    more = ("--validation_file", VALIDATION, "--eval_strategy", "steps", "--eval_steps", "2", "--event_replies", "evaluations")
    for number, (reply, reason) in enumerate((
            ("no", "it is not a JSON object"), ('{"id": ID, "control": ["sleep"]}', '"sleep" is none of stop, evaluate, save and log'),
            ('{"id": ID, "metrics": {"f1": "high"}}', 'the metric "f1" is not a number'), ('{"f1": 1}', "neither a whole number 'id'"),
            ('{"id": ID, "metrics": {"f1": 1}}', "only the reply to an event 'metrics' may have metrics"),
            ('{"metrics": {"f1": 1}}', "a reply with metrics needs the id of the event"), ('{"id": 7}', "no event had this id; the last one was 1"))):
        events, exit_code, _ = events_of(model, tmp_path / str(number), *more, replies=reply)
        assert exit_code == 2 and reason in events[-1]["message"], (reply, events[-1])
    with open(tmp_path / "events.jsonl", "w", encoding="utf-8") as file:
        process = start(file.fileno(), model, tmp_path / "file", "--event_replies", "steps")
    assert "is no socket" in process.communicate()[0].decode() and process.returncode == 2
    with open(tmp_path / "events.jsonl", "w", encoding="utf-8") as file:
        process = start(file.fileno(), model, tmp_path / "file")
    assert process.communicate() and process.returncode == 0
    lines = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[-1])["event"] == "end" and len([line for line in lines if '"step_ms"' in line]) == 6


def test_an_evaluation_sends_its_results(tmp_path, model):
    events, exit_code, _ = events_of(model, tmp_path / "out", command="eval")
    kinds = [event["event"] for event in events if event["event"] not in ("progress", "note", "warning")]
    assert exit_code == 0 and kinds == ["start", "plan", "labels", "results", "end"]
    assert next(event for event in events if event["event"] == "labels")["names"] == ["bad", "good", "odd"]


def test_the_first_of_several_processes_sends_the_events(tmp_path, model):
    events, exit_code, output = events_of(model, tmp_path / "out", "--validation_file", VALIDATION, "--eval_strategy", "steps",
                                          "--eval_steps", "3", "--save_logits", "--nproc_per_node", "2")
    assert exit_code == 0, output
    assert [event["step"] for event in events if event["event"] == "step"] == [1, 2, 3, 4, 5, 6]
    assert [event["event"] for event in events].count("end") == 1
    _, exit_code, output = events_of(model, tmp_path / "two", "--nproc_per_node", "2", "--event_replies", "steps")
    assert exit_code == 2 and "a run of several processes takes no replies" in output


def test_lines_without_an_id_do_not_count_as_replies(tmp_path, model):
    """Before each reply, the test sends a line that no event asked for and a second reply to the previous event. Neither may be taken for
    the reply."""
    ours, theirs = socket.socketpair()
    process = start(theirs.fileno(), model, tmp_path / "out", "--validation_file", VALIDATION, "--eval_strategy", "steps", "--eval_steps", "2",
                    "--save_logits", "--event_replies", "evaluations")
    theirs.close()
    evaluated, saved, number = [], [], 0
    with ours, ours.makefile("r", encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["event"] == "evaluate":
                evaluated.append(event["metrics"]["eval_own"])
            if event["event"] == "save":
                saved.append(os.path.basename(event["path"]))
            if event["event"] == "metrics":
                number += 1
                late = json.dumps({"id": event["id"] - 1, "metrics": {"own": -1}}) if event["id"] > 1 else "{}"
                request = '{"control": ["save"]}' if event["id"] == 1 else "{}"
                reply = json.dumps({"id": event["id"], "metrics": {"own": number}})
                ours.sendall("\n".join([request, late, reply, ""]).encode())
            elif "id" in event:
                ours.sendall(json.dumps({"id": event["id"]}).encode() + b"\n")
    output = process.communicate()[0].decode()
    assert process.returncode == 0, output
    assert evaluated[:3] == [1, 2, 3]
    # The request was received during the evaluation after step 2. It takes effect after the next step.
    assert saved[0] == "checkpoint-3"
    assert output.count("was dropped, because the run no longer waits for it") == number - 1


def checkpoints(folder):
    return sorted(name for name in os.listdir(folder) if name.startswith("checkpoint-"))


def test_a_signal_ends_the_wait_for_a_reply(tmp_path, model):
    for kind, more in (("metrics", ("--event_replies", "evaluations", "--save_logits")), ("evaluate", ("--event_replies", "evaluations")),
                       ("step", ("--event_replies", "steps"))):
        ours, theirs = socket.socketpair()
        output_dir = tmp_path / kind
        process = start(theirs.fileno(), model, output_dir, "--validation_file", VALIDATION, "--eval_strategy", "steps", "--eval_steps", "2",
                        "--save_strategy", "no", *more)
        theirs.close()
        with ours, ours.makefile("r", encoding="utf-8") as file:
            for line in file:
                if json.loads(line)["event"] == kind:
                    process.terminate()  # The test does not reply to this event and keeps the socket open.
        output = process.communicate(timeout=30)[0].decode()
        assert process.returncode == 6, output
        assert checkpoints(output_dir) == ["checkpoint-1" if kind == "step" else "checkpoint-2"]
        # The interrupted evaluation lacked metrics from the reader, so the resumed run must repeat it.
        process = subprocess.run([pl.program_path(), "train", "--model_name_or_path", model, "--train_file", DATA, "--validation_file",
                                  VALIDATION, "--output_dir", str(output_dir), "--use_cpu", "--num_threads", "1", "--max_seq_length", "32",
                                  "--max_steps", "6", "--logging_steps", "2", "--eval_strategy", "steps", "--eval_steps", "2", "--save_strategy",
                                  "no", "--resume_from_checkpoint", "True"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.returncode == 0, process.stdout.decode()
        log = [json.loads(line) for line in open(output_dir / "log.jsonl", encoding="utf-8")]
        assert [record["step"] for record in log if "eval_loss" in record] == [2, 4, 6]


def test_a_run_whose_reader_owes_the_best_metric_saves_and_stops(tmp_path, model):
    more = ("--validation_file", VALIDATION, "--eval_strategy", "steps", "--eval_steps", "2", "--save_logits", "--event_replies", "evaluations",
            "--metric_for_best_model", "own", "--save_strategy", "no")
    ours, theirs = socket.socketpair()
    process = start(theirs.fileno(), model, tmp_path / "gone", *more)
    theirs.close()
    with ours.makefile("r", encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if event["event"] == "metrics" and event["id"] > 1:
                break
            if "id" in event:
                ours.sendall(reply_to(event, {"metrics": {"metrics": {"own": 1.0}}}) + b"\n")
    ours.shutdown(socket.SHUT_RDWR)
    ours.close()
    output = process.communicate(timeout=30)[0].decode()
    assert process.returncode == 6 and checkpoints(tmp_path / "gone") == ["checkpoint-4"], output
    assert "--metric_for_best_model own: the evaluation has no such metric" in output
    assert "its source has ended, so the run saves a checkpoint and stops" in output
    # If the reader replies but never reports the metric that --metric_for_best_model names, the name is wrong: the run ends with an error,
    # after it saved a checkpoint.
    events, exit_code, _ = events_of(model, tmp_path / "other", *more, replies={"metrics": {"metrics": {"f1": 1.0}}})
    assert exit_code == 2 and checkpoints(tmp_path / "other") == ["checkpoint-2"]
    assert "own: the evaluation has no such metric; it has" in events[-1]["message"] and "eval_f1" in events[-1]["message"]
    assert "checkpoint-2 is complete: resume with" in events[-1]["message"]


def test_a_line_without_an_end_is_refused(tmp_path, model):
    ours, theirs = socket.socketpair()
    process = start(theirs.fileno(), model, tmp_path / "out", "--event_replies", "steps")
    theirs.close()
    with ours, ours.makefile("r", encoding="utf-8") as file:
        for line in file:
            event = json.loads(line)
            if "id" in event:
                ours.sendall(b"x" * ((1 << 20) + 1))
    assert process.wait() == 2 and "sent a line of more than 1048576 bytes" in event["message"]
    process.stdout.close()
