<?php
// A realistic cycle with Debian's php-pda-pheanstalk. Usage: php pheanstalk.php PORT. Prints "ok" at the end.

require '/usr/share/php/Pheanstalk/autoload.php';

use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

function same($expected, $got, string $what): void
{
    if ($expected !== $got) {
        fwrite(STDERR, "$what: expected " . var_export($expected, true) . ', got ' . var_export($got, true) . "\n");
        exit(1);
    }
}

$port = (int) $argv[1];
$producer = Pheanstalk::create('127.0.0.1', $port);
$worker = Pheanstalk::create('127.0.0.1', $port);

$producer->useTube('mails');
$worker->watch('mails')->ignore('default');
same('mails', $producer->listTubeUsed(true), 'tube used');
same(['mails'], $worker->listTubesWatched(true), 'tubes watched');

$first = $producer->put('hello', 10, 0, 60);
$urgent = $producer->put("gr\u{fc}\u{df}e\r\n", 1, 0, 60);
$later = $producer->put('', 1, 100, 60);
same([1, 2, 3], [$first->getId(), $urgent->getId(), $later->getId()], 'ids');

$job = $worker->reserve();
same(2, $job->getId(), 'most urgent job');
same("gr\u{fc}\u{df}e\r\n", $job->getData(), 'its body');
$worker->touch($job);
$stats = $producer->statsJob($job);
same('mails', $stats['tube'], 'tube of the job');
same('reserved', $stats['state'], 'state of the job');
$worker->release($job, 20, 100);
same('delayed', $producer->statsJob($job)['state'], 'state after a delayed release');
$producer->kickJob($job);

$job = $worker->reserveWithTimeout(1);
same(1, $job->getId(), 'next job');
$worker->bury($job, 5);
same(1, $producer->peekBuried()->getId(), 'buried');
same(3, $producer->peekDelayed()->getId(), 'delayed');
same(2, $producer->peekReady()->getId(), 'ready');
same('', $producer->peek(new JobId(3))->getData(), 'empty body');
same(1, $producer->kick(10), 'kicked');

$producer->pauseTube('mails', 100);
same(null, $worker->reserveWithTimeout(0), 'nothing from a paused tube');
$producer->resumeTube('mails');
$tube = $producer->statsTube('mails');
same('mails', $tube['name'], 'name of the tube');
same('2', (string) $tube['current-jobs-ready'], 'ready jobs of the tube');
$all = $producer->stats();
same('2', (string) $all['current-connections'], 'connections');
same('0', (string) $all['job-timeouts'], 'timeouts');
same(['default', 'mails'], $producer->listTubes(), 'tubes');

foreach ([1, 2, 3] as $id) {
    $worker->delete(new JobId($id));
}
try {
    $worker->delete(new JobId(1));
    same('an exception', 'none', 'second delete');
} catch (\Pheanstalk\Exception\JobNotFoundException $exception) {
    same(true, str_contains($exception->getMessage(), 'NOT_FOUND'), 'message of the second delete');
}
same(null, $producer->peekReady(), 'nothing ready');

$short = $producer->put('soon', 0, 1, 1);
same($short->getId(), $worker->reserveWithTimeout(3)->getId(), 'a delay of one second');
try {
    $worker->reserveWithTimeout(5);
    same('DEADLINE_SOON', 'none', 'a job with ttr 1 is held');
} catch (\Pheanstalk\Exception\DeadlineSoonException $exception) {
    $worker->delete($short);
}
$producer->put(str_repeat('x', 65535));
same(65535, strlen($worker->reserve()->getData()), 'the largest body');
echo "ok\n";
