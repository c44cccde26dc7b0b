// runnerbean's commands with go-beanstalk. Usage: go run beanstalk.go PORT. Prints "ok" at the end.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/beanstalkd/go-beanstalk"
)

// page: begin
// Queue sends any command over the connection that go-beanstalk uses, between its own commands.
// One goroutine at a time may use the two.
type Queue struct {
	*beanstalk.Conn
	raw   net.Conn
	lines *bufio.Reader
}

// tap lets both read from one buffer.
type tap struct {
	net.Conn
	lines *bufio.Reader
}

func (t tap) Read(p []byte) (int, error) { return t.lines.Read(p) }

func Dial(address string) (*Queue, error) {
	raw, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(raw)
	return &Queue{beanstalk.NewConn(tap{raw, lines}), raw, lines}, nil
}

// Ask returns the reply's words, and the data of OK. A first word that isn't in usual is an error.
func (q *Queue) Ask(line, body, usual string) ([]string, []byte, error) {
	text := line + "\r\n"
	if body != "" {
		text += body + "\r\n"
	}
	if _, err := io.WriteString(q.raw, text); err != nil {
		return nil, nil, err
	}
	reply, err := q.lines.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	words := strings.Fields(reply)
	if !strings.Contains(" "+usual+" ", " "+words[0]+" ") {
		return nil, nil, fmt.Errorf("%s in reply to: %s", strings.TrimSpace(reply), line)
	}
	if words[0] != "OK" {
		return words, nil, nil
	}
	var size int
	fmt.Sscan(words[1], &size)
	data := make([]byte, size+2)
	_, err = io.ReadFull(q.lines, data)
	return words, data[:size], err
}

func (q *Queue) PutIn(tube, body, options string) ([]string, error) {
	line := fmt.Sprintf("put-in-tube %s 0 0 60 %d %s", tube, len(body), options)
	words, _, err := q.Ask(line, body, "INSERTED DUPLICATE")
	return words, err
}
// page: end

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return value
}

func main() {
	queue := must(Dial("127.0.0.1:" + os.Args[1]))
	ask := func(line, body, usual string) string {
		_, data, err := queue.Ask(line, body, usual)
		return string(must(data, err))
	}

	ask("set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead", "", "SET")
	must(queue.PutIn("mails", "hello", "unique=welcome:42 meta=tenant:acme"))
	if words := must(queue.PutIn("mails", "again", "unique=welcome:42")); words[0] != "DUPLICATE" {
		panic(words)
	}

	mails := beanstalk.NewTubeSet(queue.Conn, "mails")
	id, _, err := mails.Reserve(5e9)
	must(id, err)
	facts := ask(fmt.Sprintf("inspect-job %d", id), "", "OK")
	if !strings.Contains(facts, "\nattempts: 1\n") || !strings.Contains(facts, `meta: ["tenant:acme"]`) {
		panic(facts)
	}
	ask(fmt.Sprintf("release %d 0 0 reason=SMTP%%20550:%%20no%%20such%%20user", id), "", "RELEASED")

	ask("open-batch import-7", "", "OPENED")
	must(queue.PutIn("rows", "1", "batch=import-7"))
	must(queue.PutIn("done", "import 7 is done", "after=import-7"))
	ask("commit-batch import-7", "", "COMMITTED")
	ask("set-schedule nightly reports 0 0 600 2 cron=30_2_*_*_* tz=Europe/Berlin", "{}", "SET")

	_, err = queue.PutIn("mails", "hello", "uniqe=x")
	if err == nil || !strings.HasPrefix(err.Error(), "UNKNOWN_OPTION uniqe") {
		panic(err)
	}
	fmt.Println("ok")
}
