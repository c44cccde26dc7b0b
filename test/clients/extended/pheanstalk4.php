<?php
// runnerbean's commands with Pheanstalk 4. Usage: php pheanstalk4.php PORT. Prints "ok" at the end.

require '/usr/share/php/Pheanstalk/autoload.php';
require __DIR__ . '/runnerbean.php';

function same($expected, $got): void
{
    if ($expected !== $got) exit('expected ' . var_export($expected, true) . ', got ' . var_export($got, true) . "\n");
}

// page: begin
$queue = Runnerbean::at('127.0.0.1', (int) $argv[1]);

// A tube's policy, and a put with options.
$queue->ask('set-tube mails max-attempts=5 backoff=10 dead-letter=mails-dead', ['SET']);
same('INSERTED', $queue->putIn('mails', 'hello', 'unique=welcome:42 meta=tenant:acme'));
same('DUPLICATE', $queue->putIn('mails', 'again', 'unique=welcome:42'));

// Reserve, and what the server knows of the job.
$job = $queue->watchOnly('mails')->reserveWithTimeout(5);
$facts = $queue->ask("inspect-job {$job->getId()}", ['OK']);
same(1, preg_match('/^attempts: 1$/m', $facts));
same(1, preg_match('/^meta: \["tenant:acme"\]$/m', $facts));

// Give it back with a reason: the policy decides when it comes back.
$reason = rawurlencode('SMTP 550: no such user');
$queue->ask("release {$job->getId()} 0 0 reason=$reason", ['RELEASED']);

// A batch: the callback is ready when all members are deleted.
$queue->ask('open-batch import-7', ['OPENED']);
foreach (['1', '2'] as $row) {
    $queue->putIn('rows', $row, 'batch=import-7');
}
$queue->putIn('done', 'import 7 is done', 'after=import-7');
$queue->ask('commit-batch import-7', ['COMMITTED']);

// A schedule.
$queue->ask('set-schedule nightly reports 0 0 600 2 cron=30_2_*_*_* tz=Europe/Berlin', ['SET'], '{}');

// Any reply that you don't name is an error.
try {
    $queue->putIn('mails', 'hello', 'uniqe=x');
    exit("no error\n");
} catch (RuntimeException $error) {
    same(true, str_starts_with($error->getMessage(), 'UNKNOWN_OPTION uniqe'));
}
// page: end

echo "ok\n";
