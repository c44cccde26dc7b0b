<?php
// Sends any command of runnerbean through Pheanstalk 4. It replaces the client everywhere, also in
// Laravel and Symfony Messenger.

// page: begin
use Pheanstalk\Command\AbstractCommand;
use Pheanstalk\Connection;
use Pheanstalk\Contract\ResponseParserInterface;
use Pheanstalk\Pheanstalk;
use Pheanstalk\Response\ArrayResponse;
use Pheanstalk\SocketFactory;

class Line extends AbstractCommand implements ResponseParserInterface
{
    public function __construct(private string $line, private ?string $body) {}
    public function getCommandLine(): string { return $this->line; }
    public function hasData(): bool { return $this->body !== null; }
    public function getData(): string { return $this->body; }
    public function parseResponse(string $line, ?string $data): ArrayResponse
    {
        return new ArrayResponse($line, ['data' => $data]);
    }
}

class Runnerbean extends Pheanstalk
{
    public function __construct(private Connection $to) { parent::__construct($to); }

    public static function at(string $host, int $port): self
    {
        return new self(new Connection(new SocketFactory($host, $port)));
    }

    /** Returns the first word of the reply, or the data of OK; throws if that word is none of $usual. */
    public function ask(string $line, array $usual, ?string $body = null): string
    {
        $reply = $this->to->dispatchCommand(new Line($line, $body));
        $words = $reply->getResponseName();
        [$word] = explode(' ', $words);
        if (!in_array($word, $usual, true)) {
            throw new RuntimeException("$words in reply to: $line");
        }
        return $reply['data'] ?? $word;
    }

    public function putIn(string $tube, string $body, string $options, array $usual = ['INSERTED', 'DUPLICATE']): string
    {
        return $this->ask("put-in-tube $tube 0 0 60 " . strlen($body) . " $options", $usual, $body);
    }
}
// page: end
