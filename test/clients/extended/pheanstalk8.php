<?php
// runnerbean's commands with Pheanstalk 8. Usage: PHEANSTALK=SOURCES php pheanstalk8.php PORT, or with
// composer's autoloader. Prints "ok" at the end.

spl_autoload_register(function ($class) {
    if (str_starts_with($class, 'Pheanstalk\\'))
        require getenv('PHEANSTALK') . '/src/' . strtr(substr($class, 11), '\\', '/') . '.php';
});

use Pheanstalk\Connection;
use Pheanstalk\Contract\CommandInterface;
use Pheanstalk\Contract\CommandWithDataInterface;
use Pheanstalk\Pheanstalk;
use Pheanstalk\SocketFactory;
use Pheanstalk\Values\RawResponse;
use Pheanstalk\Values\Success;
use Pheanstalk\Values\TubeName;

// page: begin
class Line implements CommandInterface
{
    public function __construct(private string $line) {}
    public function getCommandLine(): string { return $this->line; }
    public function interpret(RawResponse $response): Success { return new Success(); }
}

class LineWithData extends Line implements CommandWithDataInterface
{
    public function __construct(string $line, private string $data) { parent::__construct($line); }
    public function getData(): string { return $this->data; }
}

class Runnerbean
{
    public function __construct(private Connection $connection) {}

    /** Returns the first word of the reply, or the data of OK; throws if that word is none of $usual. */
    public function ask(string $line, array $usual, ?string $body = null): string
    {
        $data = null;
        try {
            $command = $body === null ? new Line($line) : new LineWithData($line, $body);
            $reply = $this->connection->dispatchCommand($command);
            [$word, $data] = [$reply->type->value, $reply->data];
        } catch (ValueError $error) {
            // Pheanstalk 8 knows the replies of beanstalkd only: SET and DUPLICATE are an error to it.
            preg_match('/"([A-Z_]+)"/', $error->getMessage(), $found);
            $word = $found[1] ?? throw $error;
        }
        if (!in_array($word, $usual, true)) throw new RuntimeException("$word in reply to: $line");
        return $data ?? $word;
    }

    public function putIn(string $tube, string $body, string $options, array $usual = ['INSERTED', 'DUPLICATE']): string
    {
        return $this->ask("put-in-tube $tube 0 0 60 " . strlen($body) . " $options", $usual, $body);
    }
}
// page: end

function same($expected, $got): void
{
    if ($expected !== $got) exit('expected ' . var_export($expected, true) . ', got ' . var_export($got, true) . "\n");
}

// page: begin
// Both share one connection, so that a job that one reserves can be released by the other.
$connection = new Connection(new SocketFactory('127.0.0.1', (int) $argv[1]));
$pheanstalk = new Pheanstalk($connection);
$queue = new Runnerbean($connection);
// page: end

$queue->ask('set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead', ['SET']);
same('INSERTED', $queue->putIn('mails', 'hello', 'unique=welcome:42 meta=tenant:acme'));
same('DUPLICATE', $queue->putIn('mails', 'again', 'unique=welcome:42'));

$pheanstalk->watch(new TubeName('mails'));
$job = $pheanstalk->reserveWithTimeout(5);
$facts = $queue->ask("inspect-job {$job->getId()}", ['OK']);
same(1, preg_match('/^attempts: 1$/m', $facts));
$reason = rawurlencode('SMTP 550: no such user');
$queue->ask("release {$job->getId()} 0 0 reason=$reason", ['RELEASED']);

$queue->ask('open-batch import-7', ['OPENED']);
$queue->putIn('rows', '1', 'batch=import-7');
$queue->putIn('done', 'import 7 is done', 'after=import-7');
$queue->ask('commit-batch import-7', ['COMMITTED']);
$queue->ask('set-schedule nightly reports 0 0 600 2 cron=30_2_*_*_* tz=Europe/Berlin', ['SET'], '{}');

try {
    $queue->putIn('mails', 'hello', 'uniqe=x');
    exit("no error\n");
} catch (RuntimeException $error) {
    same(true, str_starts_with($error->getMessage(), 'UNKNOWN_OPTION'));
}
echo "ok\n";
