# runnerbean's commands over a plain socket. Usage: python3 raw.py PORT. Prints "ok" at the end.

import json
import socket
import sys


# page: begin
class Queue:
    def __init__(self, host, port):
        self.stream = socket.create_connection((host, port)).makefile("rwb")

    def ask(self, line, *usual, body=None):
        """Returns the reply's words, and its data: that of OK, RESERVED and FOUND."""
        data = b"" if body is None else body + b"\r\n"
        self.stream.write(line.encode() + b"\r\n" + data)
        self.stream.flush()
        words = self.stream.readline().decode().split()
        if words[0] not in usual:
            raise RuntimeError(f"{' '.join(words)} in reply to: {line}")
        if words[0] not in ("OK", "RESERVED", "FOUND"):
            return words, None
        return words, self.stream.read(int(words[-1]) + 2)[:-2]

    def put(self, tube, body, *options):
        words = ["put-in-tube", tube, "0 0 60", str(len(body)), *options]
        return self.ask(" ".join(words), "INSERTED", "DUPLICATE", body=body)[0]


queue = Queue("127.0.0.1", int(sys.argv[1]))

# A tube's policy, and a put with options.
queue.ask("set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead", "SET")
assert queue.put("mails", b"hello", "unique=welcome:42", "meta=tenant:acme")[0] == "INSERTED"
assert queue.put("mails", b"again", "unique=welcome:42")[0] == "DUPLICATE"

# Reserve, and what the server knows of the job.
queue.ask("watch mails", "WATCHING")
(_, id, _), body = queue.ask("reserve-with-timeout 5", "RESERVED")
_, text = queue.ask(f"inspect-job {id}", "OK")
facts = dict(line.split(": ", 1) for line in text.decode().splitlines() if ": " in line)
assert (facts["attempts"], facts["unique"]) == ("1", '"welcome:42"')
assert json.loads(facts["meta"]) == ["tenant:acme"]

# Give it back with a reason: the policy decides when it comes back.
queue.ask(f"release {id} 0 0 reason=SMTP%20550:%20no%20such%20user", "RELEASED")

# A batch: the callback is ready when all members are deleted.
queue.ask("open-batch import-7", "OPENED")
for row in (b"1", b"2"):
    queue.put("rows", row, "batch=import-7")
queue.put("done", b"import 7 is done", "after=import-7")
queue.ask("commit-batch import-7", "COMMITTED")

# A schedule.
timing = "cron=30_2_*_*_* tz=Europe/Berlin"
queue.ask(f"set-schedule nightly reports 0 0 600 2 {timing}", "SET", body=b"{}")

# Any reply that you don't name is an error.
for option, reply in (("uniqe=x", "UNKNOWN_OPTION uniqe"), ("batch=import-7", "BATCH_COMMITTED")):
    try:
        queue.put("mails", b"hello", option)
        sys.exit("no error")
    except RuntimeError as error:
        assert str(error).startswith(reply), error
# page: end

print("ok")
