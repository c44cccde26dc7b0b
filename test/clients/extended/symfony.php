<?php
// runnerbean's commands with Symfony Messenger and Pheanstalk 4. Usage: php symfony.php PORT. Prints
// "ok" at the end.

foreach (['Pheanstalk', 'Symfony/Component/Messenger', 'Symfony/Component/Messenger/Bridge/Beanstalkd'] as $package) {
    require_once "/usr/share/php/$package/autoload.php";
}
require __DIR__ . '/runnerbean.php';

use Symfony\Component\Messenger\Bridge\Beanstalkd\Transport\BeanstalkdReceivedStamp;
use Symfony\Component\Messenger\Bridge\Beanstalkd\Transport\BeanstalkdTransport;
use Symfony\Component\Messenger\Bridge\Beanstalkd\Transport\Connection;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\ErrorDetailsStamp;
use Symfony\Component\Messenger\Stamp\StampInterface;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Transport\TransportInterface;

function same($expected, $got): void
{
    if ($expected !== $got) exit('expected ' . var_export($expected, true) . ', got ' . var_export($got, true) . "\n");
}

// page: begin
/** Options of runnerbean: unique, group, ttl, batch, after, meta. */
class PutOptions implements StampInterface
{
    public function __construct(public string $options) {}
}

class RunnerbeanTransport implements TransportInterface
{
    private $serializer;
    private $bridge;

    public function __construct(private Runnerbean $queue, private string $tube)
    {
        $this->serializer = new PhpSerializer();
        $this->bridge = new BeanstalkdTransport(new Connection(['tube_name' => $tube, 'timeout' => 5], $queue), $this->serializer);
    }

    public function send(Envelope $envelope): Envelope
    {
        $stamp = $envelope->last(PutOptions::class);
        if ($stamp === null) return $this->bridge->send($envelope);
        $encoded = $this->serializer->encode($envelope) + ['headers' => []];
        $this->queue->putIn($this->tube, json_encode($encoded), $stamp->options);
        return $envelope;
    }

    public function get(): iterable { return $this->bridge->get(); }

    public function ack(Envelope $envelope): void { $this->bridge->ack($envelope); }

    /** With max_retries: 0, Messenger rejects each failed message. The tube's policy retries it. */
    public function reject(Envelope $envelope): void
    {
        $error = $envelope->last(ErrorDetailsStamp::class);
        $reason = rawurlencode(substr($error === null ? 'rejected' : $error->getExceptionMessage(), 0, 300));
        $id = $envelope->last(BeanstalkdReceivedStamp::class)->getId();
        $this->queue->ask("release $id 0 0 reason=$reason", ['RELEASED']);
    }
}
// page: end

class Welcome
{
    public function __construct(public int $user) {}
}

$queue = Runnerbean::at('127.0.0.1', (int) $argv[1]);
$transport = new RunnerbeanTransport($queue, 'mails');

$queue->ask('set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead', ['SET']);
$queue->ask('open-batch import-7', ['OPENED']);
$transport->send(new Envelope(new Welcome(42), [new PutOptions('unique=welcome:42 batch=import-7')]));
$queue->ask('commit-batch import-7', ['COMMITTED']);

[$envelope] = $transport->get();
same(42, $envelope->getMessage()->user);
$transport->reject($envelope->with(ErrorDetailsStamp::create(new RuntimeException('SMTP 550: no such user'))));
$id = $envelope->last(BeanstalkdReceivedStamp::class)->getId();
$facts = $queue->ask("inspect-job $id", ['OK']);
same(1, preg_match('/"reason":"SMTP 550: no such user"/', $facts));
same(1, preg_match('/^attempts: 1$/m', $facts));
echo "ok\n";
