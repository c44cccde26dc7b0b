# runnerbean's commands with greenstalk 2.1. Usage: python3 greenstalk.py PORT. Prints "ok" at the end.

import sys

sys.path.pop(0)  # The folder of this file, whose name would hide the package.
import greenstalk


# page: begin
class Queue(greenstalk.Client):
    """Greenstalk raises UnknownResponseError for replies that it doesn't know: they pass here."""

    def ask(self, line, *usual):
        try:
            words = self._send_cmd(line, usual[0])
            return [usual[0], *words]
        except greenstalk.UnknownResponseError as reply:
            if reply.status in usual:
                return [reply.status, *reply.values]
            raise

    def put_in(self, tube, body, *options, usual=(b"INSERTED", b"DUPLICATE")):
        line = b" ".join([b"put-in-tube", tube, b"0 0 60 %d" % len(body), *options])
        return self.ask(line + b"\r\n" + body, *usual)

    def inspect(self, job):
        return self._stats_cmd(b"inspect-job %d" % job.id)


queue = Queue(("127.0.0.1", int(sys.argv[1])), watch="mails")
# page: end
queue.ask(b"set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead", b"SET")
# page: begin
# A put with options.
assert queue.put_in(b"mails", b"hello", b"unique=welcome:42", b"meta=tenant:acme")[0] == b"INSERTED"
# page: end
assert queue.put_in(b"mails", b"again", b"unique=welcome:42")[0] == b"DUPLICATE"
# page: begin
job = queue.reserve(timeout=5)
assert queue.inspect(job)["attempts"] == 1
queue.ask(b"release %d 0 0 reason=SMTP%%20550:%%20no%%20such%%20user" % job.id, b"RELEASED")
# page: end

# A batch: the callback is ready when all members are deleted.
queue.ask(b"open-batch import-7", b"OPENED")
for row in (b"1", b"2"):
    queue.put_in(b"rows", row, b"batch=import-7")
queue.put_in(b"done", b"import 7 is done", b"after=import-7")
queue.ask(b"commit-batch import-7", b"COMMITTED")

# A schedule.
queue.ask(b"set-schedule nightly reports 0 0 600 2 cron=30_2_*_*_* tz=Europe/Berlin\r\n{}", b"SET")

# page: begin
# An error that greenstalk doesn't know has its words in `status` and `values`.
try:
    queue.put_in(b"mails", b"hello", b"uniqe=x")
    sys.exit("no error")
except greenstalk.UnknownResponseError as error:
    assert (error.status, error.values) == (b"UNKNOWN_OPTION", [b"uniqe"])
# page: end

print("ok")
