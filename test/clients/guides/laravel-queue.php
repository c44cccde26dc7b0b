<?php
// From Laravel's Redis queue: the configuration of docs/from-other-queues.md. Usage: php
// laravel-queue.php PORT. Prints "ok" at the end.

foreach (['Pheanstalk', 'Illuminate/Container', 'Illuminate/Queue'] as $package) {
    require "/usr/share/php/$package/autoload.php";
}

use Illuminate\Container\Container;
use Illuminate\Queue\Connectors\BeanstalkdConnector;

$config = [
// page: begin
'connections' => [                                  // config/queue.php
    'redis' => ['driver' => 'redis', 'queue' => 'default', 'retry_after' => 90],          // before
    'beanstalkd' => ['driver' => 'beanstalkd', 'host' => '127.0.0.1', 'queue' => 'default',
        'retry_after' => 90, 'block_for' => 5],
],
// page: end
];

$queue = (new BeanstalkdConnector())->connect($config['connections']['beanstalkd'] + ['port' => (int) $argv[1]]);
$queue->setContainer(new Container());
$queue->setConnectionName('beanstalkd');
$queue->push('SendWelcome', ['user' => 42]);
$queue->later(60, 'SendWelcome', ['user' => 43]);
$job = $queue->pop();
if ($job->payload()['data'] !== ['user' => 42] || $job->attempts() !== 1) exit("not the first job\n");
$stats = $queue->getPheanstalk()->statsJob($job->getPheanstalkJob());
if ($stats['ttr'] !== '90') exit("retry_after is not the ttr: {$stats['ttr']}\n");
$job->release();
$again = $queue->pop();
if ($again->attempts() !== 2) exit("attempts: {$again->attempts()}\n");
$again->delete();
if ($queue->getPheanstalk()->statsTube('default')['current-jobs-delayed'] !== '1') exit("not delayed\n");
echo "ok\n";
