<?php
// runnerbean's commands with Laravel's queue and Pheanstalk 4. Usage: php laravel.php PORT. Prints
// "ok" at the end.

foreach (['Pheanstalk', 'Illuminate/Container', 'Illuminate/Queue'] as $package) {
    require "/usr/share/php/$package/autoload.php";
}
require __DIR__ . '/runnerbean.php';

use Illuminate\Container\Container;
use Illuminate\Queue\BeanstalkdQueue;
use Illuminate\Queue\Jobs\BeanstalkdJob;
use Illuminate\Queue\Jobs\Job;

function same($expected, $got): void
{
    if ($expected !== $got) exit('expected ' . var_export($expected, true) . ', got ' . var_export($got, true) . "\n");
}

// page: begin
class RunnerbeanQueue extends BeanstalkdQueue
{
    /** Like push, with options of runnerbean: unique, group, ttl, batch, after, meta. */
    public function pushWith(string $options, $job, $data = '', $queue = null)
    {
        $tube = $this->getQueue($queue);
        return $this->pheanstalk->putIn($tube, $this->createPayload($job, $tube, $data), $options);
    }

    public function pop($queue = null)
    {
        $job = parent::pop($queue);
        return $job === null ? null : new RunnerbeanJob(
            $this->container, $this->pheanstalk, $job->getPheanstalkJob(), $this->connectionName, $job->getQueue()
        );
    }
}

class RunnerbeanJob extends BeanstalkdJob
{
    public function releaseBecause(Throwable $error): void
    {
        Job::release(); // Laravel's own mark; the worker then doesn't release it again.
        $reason = rawurlencode(substr($error->getMessage(), 0, 300));
        $this->pheanstalk->ask("release {$this->getJobId()} 0 0 reason=$reason", ['RELEASED']);
    }
}

// In a service provider, Queue::extend makes the connection, and this listener gives the reason:
// Event::listen(JobExceptionOccurred::class, fn ($event) => $event->job->releaseBecause($event->exception));
$server = Runnerbean::at('127.0.0.1', (int) $argv[1]);
$queue = new RunnerbeanQueue($server, 'mails', 60, 5);
$queue->setContainer(new Container());
$queue->setConnectionName('runnerbean');
// page: end

$server->ask('set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead', ['SET']);
same('INSERTED', $queue->pushWith('unique=welcome:42', 'SendWelcome', ['user' => 42]));
same('DUPLICATE', $queue->pushWith('unique=welcome:42', 'SendWelcome', ['user' => 42]));
$server->ask('open-batch import-7', ['OPENED']);
$queue->pushWith('batch=import-7', 'ImportRow', ['row' => 1], 'rows');
$queue->pushWith('after=import-7', 'ReportImport', [], 'done');
$server->ask('commit-batch import-7', ['COMMITTED']);

$job = $queue->pop();
same('SendWelcome', $job->payload()['job']);
same(1, $job->attempts());
$job->releaseBecause(new RuntimeException('SMTP 550: no such user'));
same(true, $job->isReleased());
same(1, preg_match('/"reason":"SMTP 550: no such user"/', $server->ask("inspect-job {$job->getJobId()}", ['OK'])));
echo "ok\n";
